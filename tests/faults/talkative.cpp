// Right, and prints 64 MB.
#include "contract.h"
#include <cstring>
#include <unistd.h>
static char line[1 << 20];
extern "C" int fault(const float* x, float* out, void*) {
    static int calls = 0;
    std::memset(line, 'x', sizeof line);
    if (calls++ == 0)
        for (int i = 0; i < 64; ++i)
            if (write(1, line, sizeof line) < 0) return 7;
    for (int64_t i = 0; i < N; ++i) out[i] = x[i] > 0 ? 2 * x[i] + 1 : 1;
    return 0;
}
