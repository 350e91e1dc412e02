// row: H  expect: correct  problem: row_sum
// Cooperative groups reduce a block's row.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "contract.h"

namespace cg = cooperative_groups;

static __global__ void sum_rows(const float* x, float* out) {
  __shared__ float parts[8];
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  float sum = 0;
  for (int64_t i = threadIdx.x; i < x_dim1; i += 256) sum += x[blockIdx.x * x_dim1 + i];
  sum = cg::reduce(warp, sum, cg::plus<float>());
  if (warp.thread_rank() == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int part = 1; part < 8; ++part) sum += parts[part];
    out[blockIdx.x] = sum;
  }
}

extern "C" int row_sum(const float* x, float* out, void* workspace, cudaStream_t stream) {
  sum_rows<<<x_dim0, 256, 0, stream>>>(x, out);
  return cudaGetLastError();
}
