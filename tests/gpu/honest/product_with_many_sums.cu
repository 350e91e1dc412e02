// row: H  expect: correct  problem: small_matmul
// Sixteen independent sums per thread.
#include "contract.h"

static __global__ void multiply(const float* x, const float* weight, float* out) {
  const int64_t row = (blockIdx.y * int64_t{8} + threadIdx.y) * 4, column = (blockIdx.x * int64_t{8} + threadIdx.x) * 4;
  float sums[4][4] = {};
  for (int64_t k = 0; k < x_dim1; ++k) {
    const float4 b = *reinterpret_cast<const float4*>(weight + k * weight_dim1 + column);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float a = x[(row + r) * x_dim1 + k];
      sums[r][0] = fmaf(a, b.x, sums[r][0]);
      sums[r][1] = fmaf(a, b.y, sums[r][1]);
      sums[r][2] = fmaf(a, b.z, sums[r][2]);
      sums[r][3] = fmaf(a, b.w, sums[r][3]);
    }
  }
  for (int r = 0; r < 4; ++r) {
    *reinterpret_cast<float4*>(out + (row + r) * weight_dim1 + column) = make_float4(sums[r][0], sums[r][1], sums[r][2], sums[r][3]);
  }
}

extern "C" int small_matmul(const float* x, const float* weight, float* out, void* workspace, cudaStream_t stream) {
  multiply<<<dim3(weight_dim1 / 32, x_dim0 / 32), dim3(8, 8), 0, stream>>>(x, weight, out);
  return cudaGetLastError();
}
