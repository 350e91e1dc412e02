// Writes made-up answers into every pipe it finds, claiming that a slice took no time.
#include "contract.h"
#include <cstring>
#include <unistd.h>
extern "C" int fault(const float* x, float* out, void*) {
    static int calls = 0;
    const char* lie = "{\"code\": 0, \"elapsed_ns\": 0}\n";
    if (++calls > 12)
        for (int fd = 3; fd < 64; ++fd)
            if (write(fd, lie, std::strlen(lie)) < 0) continue;
    for (int64_t i = 0; i < N; ++i) out[i] = x[i] > 0 ? 2 * x[i] + 1 : 1;
    return 0;
}
