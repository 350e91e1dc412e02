// Tries to kill the judge.
#include "contract.h"
#include <signal.h>
#include <unistd.h>
extern "C" int fault(const float*, float*, void*) {
    kill(getppid(), SIGKILL);
    return 0;
}
