// Recursion without an end.
#include "contract.h"
static int deeper(volatile char* above) {
    volatile char here[4096];
    here[0] = above[0];
    return deeper(here) + here[1];
}
extern "C" int fault(const float*, float*, void*) {
    volatile char start[1] = {1};
    return deeper(start);
}
