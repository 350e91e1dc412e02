// Deletes every file that is mapped into it, its own library among them, then works.
#include "contract.h"
#include <cstdio>
#include <cstring>
#include <unistd.h>
extern "C" int fault(const float* x, float* out, void*) {
    if (FILE* maps = std::fopen("/proc/self/maps", "r")) {
        char line[4096];
        while (std::fgets(line, sizeof line, maps)) {
            char* path = std::strchr(line, '/');
            if (path == nullptr || std::strstr(path, "candidate") == nullptr) continue;
            path[std::strcspn(path, "\n")] = 0;
            unlink(path);
        }
        std::fclose(maps);
    }
    for (int64_t i = 0; i < N; ++i) out[i] = x[i] > 0 ? 2 * x[i] + 1 : 1;
    return 0;
}
