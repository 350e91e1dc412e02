// Leaves the last element unwritten.
#include "contract.h"
extern "C" int fault(const float* x, float* out, void*) {
    for (int64_t i = 0; i < N - 1; ++i) out[i] = x[i] > 0 ? 2 * x[i] + 1 : 1;
    return 0;
}
