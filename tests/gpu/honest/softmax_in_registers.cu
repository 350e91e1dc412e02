// row: H  expect: correct  problem: scaled_softmax
// A row stays in the registers of a block.
#include "contract.h"

static __device__ float over_block(float value, bool maximum) {
  __shared__ float parts[8];
  for (int offset = 16; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, value, offset);
    value = maximum ? fmaxf(value, other) : value + other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = parts[0];
  for (int part = 1; part < 8; ++part) value = maximum ? fmaxf(value, parts[part]) : value + parts[part];
  return value;
}
static __global__ void soften(const float* x, float* out) {
  constexpr int kEach = x_dim1 / 256;
  const int64_t row = blockIdx.x * x_dim1;
  float kept[kEach], highest = -INFINITY, sum = 0;
  for (int e = 0; e < kEach; ++e) highest = fmaxf(highest, kept[e] = x[row + e * 256 + threadIdx.x]);
  highest = over_block(highest, true);
  for (int e = 0; e < kEach; ++e) sum += kept[e] = exp2f((kept[e] - highest) * float(scale * 1.4426950408889634));
  sum = over_block(sum, false);
  for (int e = 0; e < kEach; ++e) out[row + e * 256 + threadIdx.x] = __fdividef(kept[e], sum);
}

extern "C" int scaled_softmax(const float* x, float* out, void* workspace, cudaStream_t stream) {
  static_assert(x_dim1 % 256 == 0);
  soften<<<x_dim0, 256, 0, stream>>>(x, out);
  return cudaGetLastError();
}
