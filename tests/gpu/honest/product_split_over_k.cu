// row: H  expect: correct  problem: small_matmul
// The inner dimension is split over blocks, which add up with atomics.
#include "contract.h"

static __global__ void multiply(const float* x, const float* weight, float* out) {
  const int64_t row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int64_t k = blockIdx.z * x_dim1 / 4; k < (blockIdx.z + 1) * x_dim1 / 4; ++k) {
    sum += x[row * x_dim1 + k] * weight[k * weight_dim1 + column];
  }
  atomicAdd(out + row * weight_dim1 + column, sum);
}

extern "C" int small_matmul(const float* x, const float* weight, float* out, void* workspace, cudaStream_t stream) {
  cudaMemsetAsync(out, 0, out_numel * sizeof(float), stream);
  multiply<<<dim3(weight_dim1 / 16, x_dim0 / 16, 4), dim3(16, 16), 0, stream>>>(x, weight, out);
  return cudaGetLastError();
}
