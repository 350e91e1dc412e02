// Writes to address 8.
#include "contract.h"
extern "C" int fault(const float*, float*, void*) {
    *reinterpret_cast<volatile int*>(8) = 1;
    return 0;
}
