// row: H  expect: correct  problem: relu_small
// As many blocks as fit, as the runtime says.
#include "contract.h"

static __global__ void cut_off(const float* x, float* out) {
  for (int64_t i = blockIdx.x * int64_t{256} + threadIdx.x; i < N; i += int64_t{gridDim.x} * 256) out[i] = fmaxf(x[i], 0.0f);
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  int device = 0, processors = 0, each = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status != cudaSuccess) return status;
  status = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  if (status != cudaSuccess) return status;
  status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, cut_off, 256, 0);
  if (status != cudaSuccess) return status;
  cut_off<<<processors * each, 256, 0, stream>>>(x, out);
  return cudaGetLastError();
}
