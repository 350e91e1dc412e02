// Right, but writes one element before the start.
#include "contract.h"
extern "C" int fault(const float* x, float* out, void*) {
    for (int64_t i = -1; i < N; ++i) out[i] = i >= 0 && x[i] > 0 ? 2 * x[i] + 1 : 1;
    return 0;
}
