// Leaves a grandchild that holds every pipe, then ends.
#include "contract.h"
#include <unistd.h>
extern "C" int fault(const float*, float*, void*) {
    if (fork() == 0) {
        setsid();
        if (fork() == 0)
            for (;;) pause();
        _exit(0);
    }
    _exit(0);
}
