// A block of b stays in cache while all rows of the result pass over it.
#include "contract.h"

#include <cstring>

// tune: K_BLOCK = 32, 64, 128, 256
// tune: COLUMN_BLOCK = 128, 256, 512
#ifndef K_BLOCK
#define K_BLOCK 128
#endif
#ifndef COLUMN_BLOCK
#define COLUMN_BLOCK 256
#endif

static constexpr int64_t rows = a_dim0, inner = a_dim1, columns = b_dim1;

static int64_t smaller(int64_t one, int64_t two) { return one < two ? one : two; }

extern "C" int matmul_fp32(const float* a, const float* b, float* out, void*) {
    std::memset(out, 0, rows * columns * sizeof(float));
    for (int64_t first_k = 0; first_k < inner; first_k += K_BLOCK)
        for (int64_t first_j = 0; first_j < columns; first_j += COLUMN_BLOCK) {
            const int64_t last_k = smaller(first_k + K_BLOCK, inner), last_j = smaller(first_j + COLUMN_BLOCK, columns);
            for (int64_t i = 0; i < rows; ++i) {
                float* result = out + i * columns;
                for (int64_t k = first_k; k < last_k; ++k) {
                    const float value = a[i * inner + k];
                    const float* row = b + k * columns;
#pragma omp simd
                    for (int64_t j = first_j; j < last_j; ++j) result[j] += value * row[j];
                }
            }
        }
    return 0;
}
