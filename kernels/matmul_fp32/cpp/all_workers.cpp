// The plain row update with rows of the result spread over the cores.
#include "contract.h"

#include <cstring>

// tune: ROW_BLOCK = 1, 4, 16, 64
#ifndef ROW_BLOCK
#define ROW_BLOCK 16
#endif

static constexpr int64_t rows = a_dim0, inner = a_dim1, columns = b_dim1;

extern "C" int matmul_fp32(const float* a, const float* b, float* out, void*) {
#pragma omp parallel for schedule(dynamic, ROW_BLOCK)
    for (int64_t i = 0; i < rows; ++i) {
        float* result = out + i * columns;
        std::memset(result, 0, columns * sizeof(float));
        for (int64_t k = 0; k < inner; ++k) {
            const float value = a[i * inner + k];
#pragma omp simd
            for (int64_t j = 0; j < columns; ++j) result[j] += value * b[k * columns + j];
        }
    }
    return 0;
}
