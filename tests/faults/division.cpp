// Divides a whole number by zero.
#include "contract.h"
extern "C" int fault(const float*, float*, void*) {
    volatile int seven = 7, zero = 0;
    return seven / zero;
}
