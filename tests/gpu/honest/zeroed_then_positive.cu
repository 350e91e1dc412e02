// row: H  expect: correct  problem: relu_small
// A memset on the stream; the kernel writes what is positive only.
#include "contract.h"

static __global__ void keep_positive(const float* x, float* out) {
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i < N && !(x[i] <= 0)) out[i] = x[i];
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  cudaMemsetAsync(out, 0, N * sizeof(float), stream);
  keep_positive<<<(N + 255) / 256, 256, 0, stream>>>(x, out);
  return cudaGetLastError();
}
