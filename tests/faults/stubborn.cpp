// Never returns, ignores polite signals, leaves a grandchild in a session of its own that holds stdout.
#include "contract.h"
#include <signal.h>
#include <unistd.h>
extern "C" int fault(const float*, float*, void*) {
    signal(SIGTERM, SIG_IGN);
    signal(SIGALRM, SIG_IGN);
    if (fork() == 0) {
        setsid();
        for (;;) pause();
    }
    for (volatile long i = 0;; ++i) {}
}
