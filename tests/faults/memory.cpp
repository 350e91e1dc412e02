// Asks for more and more host memory and uses it.
#include "contract.h"
#include <cstring>
#include <new>
extern "C" int fault(const float*, float*, void*) {
    for (;;) {
        char* more = new char[256 << 20];
        std::memset(more, 1, 1 << 20);
    }
}
