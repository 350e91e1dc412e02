// row: H  expect: correct  problem: relu_small
// More shared memory than comes without asking.
#include "contract.h"

extern __shared__ float tile[];

static __global__ void cut_off(const float* x, float* out) {
  constexpr int kEach = 24 * 1024;
  const int64_t begin = blockIdx.x * int64_t{kEach};
  for (int i = threadIdx.x; i < kEach && begin + i < N; i += 512) tile[i] = x[begin + i];
  __syncthreads();
  for (int i = threadIdx.x; i < kEach && begin + i < N; i += 512) out[begin + i] = fmaxf(tile[i], 0.0f);
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  const cudaError_t status = cudaFuncSetAttribute(cut_off, cudaFuncAttributeMaxDynamicSharedMemorySize, 96 * 1024);
  if (status != cudaSuccess) return status;
  cut_off<<<(N + 24 * 1024 - 1) / (24 * 1024), 512, 96 * 1024, stream>>>(x, out);
  return cudaGetLastError();
}
