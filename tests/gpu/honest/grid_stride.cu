// row: H  expect: correct  problem: relu_small
// Fewer threads than elements.
#include "contract.h"

static __global__ void cut_off(const float* x, float* out) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < N; i += int64_t{gridDim.x} * blockDim.x) {
    out[i] = fmaxf(x[i], 0.0f);
  }
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  cut_off<<<132 * 4, 256, 0, stream>>>(x, out);
  return cudaGetLastError();
}
