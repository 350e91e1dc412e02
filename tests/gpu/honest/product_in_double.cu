// row: H  expect: correct  problem: small_matmul
// Sums in double.
#include "contract.h"

static __global__ void multiply(const float* x, const float* weight, float* out) {
  const int64_t row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  double sum = 0;
  for (int64_t k = 0; k < x_dim1; ++k) sum = fma(double(x[row * x_dim1 + k]), double(weight[k * weight_dim1 + column]), sum);
  out[row * weight_dim1 + column] = float(sum);
}

extern "C" int small_matmul(const float* x, const float* weight, float* out, void* workspace, cudaStream_t stream) {
  multiply<<<dim3(weight_dim1 / 16, x_dim0 / 16), dim3(16, 16), 0, stream>>>(x, weight, out);
  return cudaGetLastError();
}
