// Several rows of b are added to a row of the result at once, so that it is loaded and stored once for all of them.
#include "contract.h"

#include <cstring>

// tune: UNROLL = 2, 4, 8, 16
#ifndef UNROLL
#define UNROLL 8
#endif

static constexpr int64_t rows = a_dim0, inner = a_dim1, columns = b_dim1, unrolled = inner / UNROLL * UNROLL;

extern "C" int matmul_fp32(const float* a, const float* b, float* out, void*) {
    for (int64_t i = 0; i < rows; ++i) {
        float* result = out + i * columns;
        std::memset(result, 0, columns * sizeof(float));
        for (int64_t k = 0; k < unrolled; k += UNROLL) {
            float value[UNROLL];
            for (int u = 0; u < UNROLL; ++u) value[u] = a[i * inner + k + u];
#pragma omp simd
            for (int64_t j = 0; j < columns; ++j) {
                float sum = result[j];
#pragma GCC unroll 16
                for (int u = 0; u < UNROLL; ++u) sum += value[u] * b[(k + u) * columns + j];
                result[j] = sum;
            }
        }
        for (int64_t k = unrolled; k < inner; ++k)
            for (int64_t j = 0; j < columns; ++j) result[j] += a[i * inner + k] * b[k * columns + j];
    }
    return 0;
}
