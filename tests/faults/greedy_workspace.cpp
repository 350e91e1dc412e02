// Asks for a petabyte of workspace.
#include "contract.h"
extern "C" __attribute__((visibility("default"))) size_t fault_workspace() { return size_t(1) << 50; }
extern "C" int fault(const float*, float*, void*) { return 0; }
