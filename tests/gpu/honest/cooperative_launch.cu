// row: H  expect: correct  problem: relu_small
// A cooperative launch: the grid meets between two steps.
#include <cooperative_groups.h>

#include "contract.h"

namespace cg = cooperative_groups;

static __global__ void cut_off(const float* x, float* out) {
  const int64_t first = blockIdx.x * int64_t{blockDim.x} + threadIdx.x, step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = first; i < N; i += step) out[i] = x[i];
  cg::this_grid().sync();
  for (int64_t i = N - 1 - first; i >= 0; i -= step) out[i] = fmaxf(out[i], 0.0f);
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  void* arguments[] = {&x, &out};
  return cudaLaunchCooperativeKernel(reinterpret_cast<void*>(cut_off), dim3(132), dim3(256), arguments, 0, stream);
}
