// Softmax over the last dimension, one block per row: maximum, sum, write. Reads x three times.
#include <cuda_runtime.h>

#include <cmath>

#include "contract.h"

namespace {

constexpr int kThreads = 256;
constexpr int64_t kColumns = x_dim1;
constexpr int64_t kRows = x_numel / kColumns;

template <class Operation>
__device__ float block_reduce(float value, float identity, Operation operation) {
  __shared__ float partial[kThreads / 32];
  __syncthreads();
  for (int offset = 16; offset > 0; offset /= 2) {
    value = operation(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = identity;
  for (int warp = 0; warp < kThreads / 32; ++warp) value = operation(value, partial[warp]);
  return value;
}

__global__ void softmax_kernel(const float* __restrict__ x, float* __restrict__ out) {
  const float* row = x + blockIdx.x * kColumns;
  float* result = out + blockIdx.x * kColumns;
  float highest = -INFINITY;
  for (int64_t i = threadIdx.x; i < kColumns; i += kThreads) highest = fmaxf(highest, row[i]);
  highest = block_reduce(highest, -INFINITY, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < kColumns; i += kThreads) sum += expf(row[i] - highest);
  sum = block_reduce(sum, 0.0f, [](float a, float b) { return a + b; });
  for (int64_t i = threadIdx.x; i < kColumns; i += kThreads) result[i] = expf(row[i] - highest) / sum;
}

}  // namespace

extern "C" int softmax(const float* x, float* out, void* workspace, cudaStream_t stream) {
  softmax_kernel<<<kRows, kThreads, 0, stream>>>(x, out);
  return cudaGetLastError();
}
