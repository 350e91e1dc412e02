// row: H  expect: correct  problem: row_sum
// A warp per row, shuffles at the end.
#include "contract.h"

static __global__ void sum_rows(const float* x, float* out) {
  const int64_t row = blockIdx.x * int64_t{8} + threadIdx.x / 32;
  if (row >= x_dim0) return;
  float sum = 0;
  for (int64_t i = threadIdx.x % 32; i < x_dim1; i += 32) sum += x[row * x_dim1 + i];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffu, sum, offset);
  if (threadIdx.x % 32 == 0) out[row] = sum;
}

extern "C" int row_sum(const float* x, float* out, void* workspace, cudaStream_t stream) {
  sum_rows<<<(x_dim0 + 7) / 8, 256, 0, stream>>>(x, out);
  return cudaGetLastError();
}
