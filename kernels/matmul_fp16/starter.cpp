// Plain loops with a row of float sums in the workspace, rounded to half once.
#include "contract.h"

extern "C" size_t matmul_fp16_workspace() { return b_dim1 * sizeof(float); }

extern "C" int matmul_fp16(const _Float16* a, const _Float16* b, _Float16* out, void* workspace) {
    constexpr int64_t rows = a_dim0, inner = a_dim1, columns = b_dim1;
    float* sums = static_cast<float*>(workspace);
    for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) sums[j] = 0;
        for (int64_t k = 0; k < inner; ++k) {
            const float value = static_cast<float>(a[i * inner + k]);
            for (int64_t j = 0; j < columns; ++j) sums[j] += value * static_cast<float>(b[k * columns + j]);
        }
        for (int64_t j = 0; j < columns; ++j) out[i * columns + j] = static_cast<_Float16>(sums[j]);
    }
    return 0;
}
