// row: H  expect: correct  problem: row_sum
// Blocks leave parts; the last to come adds them up and resets the counter.
#include "contract.h"

extern "C" size_t row_sum_workspace() { return (4 * out_numel + out_numel) * sizeof(float); }


static __global__ void sum_rows(const float* x, float* out, float* parts, unsigned int* arrived) {
  __shared__ float sums[8];
  const int64_t row = blockIdx.y;
  float sum = 0;
  for (int64_t i = blockIdx.x * x_dim1 / 4 + threadIdx.x; i < (blockIdx.x + 1) * x_dim1 / 4; i += 256) sum += x[row * x_dim1 + i];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int part = 1; part < 8; ++part) sum += sums[part];
  parts[row * 4 + blockIdx.x] = sum;
  __threadfence();
  if (atomicAdd(arrived + row, 1u) == 3) {
    const volatile float* all = parts + row * 4;
    out[row] = (all[0] + all[1]) + (all[2] + all[3]);
  }
}

extern "C" int row_sum(const float* x, float* out, void* workspace, cudaStream_t stream) {
  float* parts = static_cast<float*>(workspace);
  auto arrived = reinterpret_cast<unsigned int*>(parts + 4 * out_numel);
  cudaMemsetAsync(arrived, 0, out_numel * sizeof(unsigned int), stream);
  sum_rows<<<dim3(4, x_dim0), 256, 0, stream>>>(x, out, parts, arrived);
  return cudaGetLastError();
}
