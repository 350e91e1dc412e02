// Right, and returns 3.
#include "contract.h"
extern "C" int fault(const float* x, float* out, void*) {
    for (int64_t i = 0; i < N; ++i) out[i] = x[i] > 0 ? 2 * x[i] + 1 : 1;
    return 3;
}
