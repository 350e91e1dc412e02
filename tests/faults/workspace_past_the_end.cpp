// Writes one byte behind the workspace it asked for.
#include "contract.h"
extern "C" __attribute__((visibility("default"))) size_t fault_workspace() { return 1000; }
extern "C" int fault(const float* x, float* out, void* workspace) {
    static_cast<char*>(workspace)[1000] = 1;
    for (int64_t i = 0; i < N; ++i) out[i] = x[i] > 0 ? 2 * x[i] + 1 : 1;
    return 0;
}
