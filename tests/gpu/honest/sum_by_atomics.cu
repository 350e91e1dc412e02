// row: H  expect: correct  problem: row_sum
// Partial sums meet in atomics, in any order.
#include "contract.h"

static __global__ void add_parts(const float* x, float* out) {
  const int64_t row = blockIdx.y, begin = blockIdx.x * int64_t{256};
  float value = begin + threadIdx.x < x_dim1 ? x[row * x_dim1 + begin + threadIdx.x] : 0;
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  if (threadIdx.x % 32 == 0) atomicAdd(out + row, value);
}

extern "C" int row_sum(const float* x, float* out, void* workspace, cudaStream_t stream) {
  cudaMemsetAsync(out, 0, out_numel * sizeof(float), stream);
  add_parts<<<dim3((x_dim1 + 255) / 256, x_dim0), 256, 0, stream>>>(x, out);
  return cudaGetLastError();
}
