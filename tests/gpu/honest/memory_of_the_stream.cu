// row: H  expect: correct  problem: relu_small
// Memory allocated and freed in the order of the stream.
#include "contract.h"

static __global__ void cut_off(const float* x, float* kept) {
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i < N) kept[i] = fmaxf(x[i], 0.0f);
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  float* kept = nullptr;
  cudaError_t status = cudaMallocAsync(reinterpret_cast<void**>(&kept), N * sizeof(float), stream);
  if (status != cudaSuccess) return status;
  cut_off<<<(N + 255) / 256, 256, 0, stream>>>(x, kept);
  status = cudaMemcpyAsync(out, kept, N * sizeof(float), cudaMemcpyDeviceToDevice, stream);
  if (status != cudaSuccess) return status;
  status = cudaFreeAsync(kept, stream);
  if (status != cudaSuccess) return status;
  return cudaGetLastError();
}
