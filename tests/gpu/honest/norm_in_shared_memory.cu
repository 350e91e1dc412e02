// row: H  expect: correct  problem: row_norm
// A row in shared memory, mean and variance one after the other.
#include "contract.h"

static __device__ float sum_over_block(float value) {
  __shared__ float parts[8];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0;
  for (int part = 0; part < 8; ++part) value += parts[part];
  return value;
}
static __global__ void normalise(const float* x, const float* weight, const float* bias, float* out) {
  __shared__ float row[width];
  const int64_t begin = blockIdx.x * width;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < width; i += 256) sum += row[i] = x[begin + i];
  const float mean = sum_over_block(sum) / width;
  for (int i = threadIdx.x; i < width; i += 256) squares += (row[i] - mean) * (row[i] - mean);
  const float factor = rsqrtf(sum_over_block(squares) / width + 1e-5f);
  for (int i = threadIdx.x; i < width; i += 256) out[begin + i] = (row[i] - mean) * factor * weight[i] + bias[i];
}

extern "C" int row_norm(const float* x, const float* weight, const float* bias, float* out, void* workspace,
                        cudaStream_t stream) {
  normalise<<<x_dim0, 256, 0, stream>>>(x, weight, bias, out);
  return cudaGetLastError();
}
