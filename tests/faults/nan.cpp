// NaN in one place.
#include "contract.h"
#include <cmath>
extern "C" int fault(const float* x, float* out, void*) {
    for (int64_t i = 0; i < N; ++i) out[i] = x[i] > 0 ? 2 * x[i] + 1 : 1;
    out[N / 3] = NAN;
    return 0;
}
