// row: H  expect: correct  problem: row_sum
// More precise than need be.
#include "contract.h"

static __global__ void sum_rows(const float* x, float* out) {
  __shared__ double parts[128];
  double sum = 0;
  for (int64_t i = threadIdx.x; i < x_dim1; i += 128) sum += x[blockIdx.x * x_dim1 + i];
  parts[threadIdx.x] = sum;
  for (int half = 64; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = float(parts[0]);
}

extern "C" int row_sum(const float* x, float* out, void* workspace, cudaStream_t stream) {
  sum_rows<<<x_dim0, 128, 0, stream>>>(x, out);
  return cudaGetLastError();
}
