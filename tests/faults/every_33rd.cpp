// Wrong in every 33rd column.
#include "contract.h"
extern "C" int fault(const float* x, float* out, void*) {
    for (int64_t i = 0; i < N; ++i) {
        out[i] = x[i] > 0 ? 2 * x[i] + 1 : 1;
        if (i % x_dim1 % 33 == 0) out[i] += 1;
    }
    return 0;
}
