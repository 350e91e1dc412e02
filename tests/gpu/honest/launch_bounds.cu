// row: H  expect: correct  problem: relu_small
// The largest block there is, bounded.
#include "contract.h"

static __global__ void __launch_bounds__(1024, 2) cut_off(const float* x, float* out) {
  const int64_t i = blockIdx.x * int64_t{1024} + threadIdx.x;
  if (i < N) out[i] = fmaxf(x[i], 0.0f);
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  cut_off<<<(N + 1023) / 1024, 1024, 0, stream>>>(x, out);
  return cudaGetLastError();
}
