// Closes every pipe and sleeps.
#include "contract.h"
#include <unistd.h>
extern "C" int fault(const float*, float*, void*) {
    for (int fd = 0; fd < 256; ++fd) close(fd);
    for (;;) pause();
}
