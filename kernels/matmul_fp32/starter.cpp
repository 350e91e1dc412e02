// Plain loops; the middle one runs over k, so that the innermost walks rows of b and out.
#include "contract.h"

extern "C" int matmul_fp32(const float* a, const float* b, float* out, void*) {
    constexpr int64_t rows = a_dim0, inner = a_dim1, columns = b_dim1;
    for (int64_t i = 0; i < rows; ++i) {
        float* result = out + i * columns;
        for (int64_t j = 0; j < columns; ++j) result[j] = 0;
        for (int64_t k = 0; k < inner; ++k) {
            const float value = a[i * inner + k];
            for (int64_t j = 0; j < columns; ++j) result[j] += value * b[k * columns + j];
        }
    }
    return 0;
}
