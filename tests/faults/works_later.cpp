// Right, but a thread that outlives the call keeps a core busy.
#include "contract.h"
#include <atomic>
#include <thread>
static std::atomic<long> spins{0};
extern "C" int fault(const float* x, float* out, void*) {
    static bool started = false;
    if (!started) std::thread([] { for (;;) spins.fetch_add(1, std::memory_order_relaxed); }).detach();
    started = true;
    for (int64_t i = 0; i < N; ++i) out[i] = x[i] > 0 ? 2 * x[i] + 1 : 1;
    return 0;
}
