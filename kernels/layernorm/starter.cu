// Layer normalisation, one block per row: mean, then variance around it, then the write. Reads x three times.
#include <cuda_runtime.h>

#include "contract.h"

namespace {

constexpr int kThreads = 1024;
constexpr int64_t kColumns = norm_weight_numel;
constexpr int64_t kRows = x_numel / kColumns;
constexpr float kEpsilon = static_cast<float>(eps);

__device__ float block_sum(float value) {
  __shared__ float partial[kThreads / 32];
  __syncthreads();
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[threadIdx.x % 32];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

__global__ void layernorm_kernel(const float* __restrict__ x, const float* __restrict__ weight,
                                 const float* __restrict__ bias, float* __restrict__ out) {
  const float* row = x + blockIdx.x * kColumns;
  float* result = out + blockIdx.x * kColumns;
  const float pivot = row[0];  // sums stay small when the mean is large
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < kColumns; i += kThreads) sum += row[i] - pivot;
  const float mean = pivot + block_sum(sum) / kColumns;
  float squares = 0.0f;
  for (int64_t i = threadIdx.x; i < kColumns; i += kThreads) squares += (row[i] - mean) * (row[i] - mean);
  const float scale = rsqrtf(block_sum(squares) / kColumns + kEpsilon);
  for (int64_t i = threadIdx.x; i < kColumns; i += kThreads) {
    result[i] = (row[i] - mean) * scale * weight[i] + bias[i];
  }
}

}  // namespace

extern "C" int layernorm(const float* x, const float* norm_weight, const float* norm_bias, float* out, void* workspace,
                         cudaStream_t stream) {
  layernorm_kernel<<<kRows, kThreads, 0, stream>>>(x, norm_weight, norm_bias, out);
  return cudaGetLastError();
}
