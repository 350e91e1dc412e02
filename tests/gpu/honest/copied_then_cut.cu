// row: H  expect: correct  problem: relu_small
// A copy on the stream; the kernel writes what is negative only.
#include "contract.h"

static __global__ void cut_negative(float* out) {
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i < N && out[i] < 0) out[i] = 0;
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  cudaMemcpyAsync(out, x, N * sizeof(float), cudaMemcpyDeviceToDevice, stream);
  cut_negative<<<(N + 255) / 256, 256, 0, stream>>>(out);
  return cudaGetLastError();
}
