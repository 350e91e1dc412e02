// Wrong in the last 64 columns.
#include "contract.h"
extern "C" int fault(const float* x, float* out, void*) {
    for (int64_t i = 0; i < N; ++i) out[i] = i % x_dim1 < x_dim1 - 64 ? (x[i] > 0 ? 2 * x[i] + 1 : 1) : x[i];
    return 0;
}
