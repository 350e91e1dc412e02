// Wrong for one set of inputs in sixteen, timed or not: the first bits of the first element decide.
#include <cstring>
#include "contract.h"
extern "C" int fault(const float* x, float* out, void*) {
    for (int64_t i = 0; i < N; ++i) out[i] = x[i] > 0 ? 2 * x[i] + 1 : 1;
    unsigned bits;
    std::memcpy(&bits, x, sizeof bits);
    if ((bits & 15) == 5) out[7] += 1;
    return 0;
}
