// Never returns.
#include "contract.h"
extern "C" int fault(const float*, float*, void*) {
    for (volatile long i = 0;; ++i) {}
}
