// Several rows of the result take several rows of b at once, on all cores: a vector of b that is loaded serves all rows
// of the result, and a vector of the result that is loaded and stored serves all rows of b.
#include "contract.h"

#include <cstring>

// tune: UNROLL = 2, 4, 8
// tune: JAM = 2, 4, 6
// (rows of the result that are updated together)
// tune-if: UNROLL * JAM <= 24
#ifndef UNROLL
#define UNROLL 4
#endif
#ifndef JAM
#define JAM 4
#endif

static constexpr int64_t rows = a_dim0, inner = a_dim1, columns = b_dim1, unrolled = inner / UNROLL * UNROLL;

template <int height, int depth>
static void add_rows(const float* a, const float* b, float* out) {
    float value[height][depth];
    for (int i = 0; i < height; ++i)
        for (int u = 0; u < depth; ++u) value[i][u] = a[i * inner + u];
#pragma omp simd
    for (int64_t j = 0; j < columns; ++j) {
        float sums[height];
#pragma GCC unroll 8
        for (int i = 0; i < height; ++i) sums[i] = out[i * columns + j];
#pragma GCC unroll 8
        for (int u = 0; u < depth; ++u)
#pragma GCC unroll 8
            for (int i = 0; i < height; ++i) sums[i] += value[i][u] * b[u * columns + j];
#pragma GCC unroll 8
        for (int i = 0; i < height; ++i) out[i * columns + j] = sums[i];
    }
}

template <int height>
static void multiply_rows(const float* a, const float* b, float* out) {
    std::memset(out, 0, height * columns * sizeof(float));
    for (int64_t k = 0; k < unrolled; k += UNROLL) add_rows<height, UNROLL>(a + k, b + k * columns, out);
    for (int64_t k = unrolled; k < inner; ++k) add_rows<height, 1>(a + k, b + k * columns, out);
}

extern "C" int matmul_fp32(const float* a, const float* b, float* out, void*) {
    constexpr int64_t jammed = rows / JAM * JAM;
#pragma omp parallel
    {
#pragma omp for schedule(dynamic, 4) nowait
        for (int64_t i = 0; i < jammed; i += JAM) multiply_rows<JAM>(a + i * inner, b, out + i * columns);
#pragma omp for schedule(static)
        for (int64_t i = jammed; i < rows; ++i) multiply_rows<1>(a + i * inner, b, out + i * columns);
    }
    return 0;
}
