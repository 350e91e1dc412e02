// row: H  expect: correct  problem: row_sum
// Four blocks share a row and add up through shared memory of the first.
#include <cooperative_groups.h>

#include "contract.h"

namespace cg = cooperative_groups;

static __global__ void sum_rows(const float* x, float* out) {
  __shared__ float total;
  cg::cluster_group cluster = cg::this_cluster();
  const int64_t row = blockIdx.x / 4;
  if (threadIdx.x == 0) total = 0;
  cluster.sync();
  float sum = 0;
  for (int64_t i = cluster.block_rank() * 256 + threadIdx.x; i < x_dim1; i += 1024) sum += x[row * x_dim1 + i];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  if (threadIdx.x % 32 == 0) atomicAdd(cluster.map_shared_rank(&total, 0), sum);
  cluster.sync();
  if (cluster.block_rank() == 0 && threadIdx.x == 0) out[row] = total;
}

extern "C" int row_sum(const float* x, float* out, void* workspace, cudaStream_t stream) {
  cudaLaunchAttribute shape;
  shape.id = cudaLaunchAttributeClusterDimension;
  shape.val.clusterDim.x = 4;
  shape.val.clusterDim.y = 1;
  shape.val.clusterDim.z = 1;
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(unsigned(x_dim0 * 4));
  launch.blockDim = dim3(256);
  launch.stream = stream;
  launch.attrs = &shape;
  launch.numAttrs = 1;
  return cudaLaunchKernelEx(&launch, sum_rows, x, out);
}
