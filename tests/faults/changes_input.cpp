// Right, but zeroes an element of its input afterwards.
#include "contract.h"
extern "C" int fault(const float* x, float* out, void*) {
    for (int64_t i = 0; i < N; ++i) out[i] = x[i] > 0 ? 2 * x[i] + 1 : 1;
    const_cast<float*>(x)[N / 2] = 0;
    return 0;
}
