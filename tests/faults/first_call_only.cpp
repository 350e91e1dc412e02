// Works on the first call; later calls hand out the first answer again.
#include "contract.h"
#include <cstring>
static float kept[N];
extern "C" int fault(const float* x, float* out, void*) {
    static bool done = false;
    if (!done)
        for (int64_t i = 0; i < N; ++i) kept[i] = x[i] > 0 ? 2 * x[i] + 1 : 1;
    done = true;
    std::memcpy(out, kept, sizeof kept);
    return 0;
}
