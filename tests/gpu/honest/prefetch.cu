// row: H  expect: correct  problem: relu_small
// Fetches its own next tile into L2 ahead of time.
#include "contract.h"

static __global__ void cut_off(const float* x, float* out) {
  const int64_t step = int64_t{gridDim.x} * 256;
  for (int64_t i = blockIdx.x * int64_t{256} + threadIdx.x; i < N; i += step) {
    if (i + step < N) asm volatile("prefetch.global.L2 [%0];" ::"l"(x + i + step));
    out[i] = fmaxf(x[i], 0.0f);
  }
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  cut_off<<<264, 256, 0, stream>>>(x, out);
  return cudaGetLastError();
}
