// Ends its process as if all were well.
#include "contract.h"
#include <unistd.h>
extern "C" int fault(const float*, float*, void*) { _exit(0); }
