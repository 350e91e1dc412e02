// row: H  expect: correct  problem: relu_small
// Traps where something cannot be.
#include "contract.h"

static __global__ void cut_off(const float* x, float* out) {
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (blockDim.x != 256) __trap();
  if (i < N) {
    const float value = fmaxf(x[i], 0.0f);
    if (value < 0) __trap();
    out[i] = value;
  }
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  cut_off<<<(N + 255) / 256, 256, 0, stream>>>(x, out);
  return cudaGetLastError();
}
