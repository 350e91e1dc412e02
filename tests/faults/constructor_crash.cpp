// Crashes while it is loaded.
#include "contract.h"
static int crash() { *reinterpret_cast<volatile int*>(8) = 1; return 0; }
static int early = crash();
extern "C" int fault(const float*, float*, void*) { return early; }
