// row: H  expect: correct  problem: scaled_softmax
// Maximum and sum in one pass, a warp per row.
#include "contract.h"

static __global__ void soften(const float* x, float* out) {
  const int64_t row = blockIdx.x * int64_t{4} + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  float highest = -INFINITY, sum = 0;
  for (int64_t i = lane; i < x_dim1; i += 32) {
    const float value = x[row * x_dim1 + i] * float(scale), higher = fmaxf(highest, value);
    sum = sum * __expf(highest - higher) + __expf(value - higher);
    highest = higher;
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, highest, offset), more = __shfl_xor_sync(0xffffffffu, sum, offset);
    const float higher = fmaxf(highest, other);
    sum = sum * __expf(highest - higher) + more * __expf(other - higher);
    highest = higher;
  }
  for (int64_t i = lane; i < x_dim1; i += 32) out[row * x_dim1 + i] = __expf(x[row * x_dim1 + i] * float(scale) - highest) / sum;
}

extern "C" int scaled_softmax(const float* x, float* out, void* workspace, cudaStream_t stream) {
  static_assert(x_dim0 % 4 == 0);
  soften<<<x_dim0 / 4, 128, 0, stream>>>(x, out);
  return cudaGetLastError();
}
