// Trusts what an earlier call left in its workspace.
#include "contract.h"
extern "C" __attribute__((visibility("default"))) size_t fault_workspace() { return sizeof(float) * (N + 1); }
extern "C" int fault(const float* x, float* out, void* workspace) {
    float* kept = static_cast<float*>(workspace);
    static bool done = false;
    if (!done)
        for (int64_t i = 0; i < N; ++i) kept[i] = 1;
    done = true;
    for (int64_t i = 0; i < N; ++i) out[i] = (x[i] > 0 ? 2 * x[i] : 0) + kept[i];
    return 0;
}
