// row: H  expect: correct  problem: small_matmul
// Tiles of both operands in shared memory.
#include "contract.h"

static __global__ void multiply(const float* x, const float* weight, float* out) {
  __shared__ float a[16][17], b[16][17];
  const int64_t row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int64_t begin = 0; begin < x_dim1; begin += 16) {
    a[threadIdx.y][threadIdx.x] = x[row * x_dim1 + begin + threadIdx.x];
    b[threadIdx.y][threadIdx.x] = weight[(begin + threadIdx.y) * weight_dim1 + column];
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += a[threadIdx.y][k] * b[k][threadIdx.x];
    __syncthreads();
  }
  out[row * weight_dim1 + column] = sum;
}

extern "C" int small_matmul(const float* x, const float* weight, float* out, void* workspace, cudaStream_t stream) {
  multiply<<<dim3(weight_dim1 / 16, x_dim0 / 16), dim3(16, 16), 0, stream>>>(x, weight, out);
  return cudaGetLastError();
}
