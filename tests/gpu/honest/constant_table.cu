// row: H  expect: correct  problem: relu_small
// A table in constant memory.
#include "contract.h"

__constant__ float kFactors[2] = {0.0f, 1.0f};

static __global__ void cut_off(const float* x, float* out) {
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i < N) out[i] = x[i] > 0 ? x[i] * kFactors[1] : kFactors[0];
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  cut_off<<<(N + 255) / 256, 256, 0, stream>>>(x, out);
  return cudaGetLastError();
}
