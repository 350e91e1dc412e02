// A C++ exception crosses the C boundary.
#include "contract.h"
#include <stdexcept>
extern "C" int fault(const float*, float*, void*) { throw std::runtime_error("no such tile"); }
