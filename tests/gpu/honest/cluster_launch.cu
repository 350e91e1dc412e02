// row: H  expect: correct  problem: relu_small
// Blocks of a cluster read each other's shared memory.
#include <cooperative_groups.h>

#include "contract.h"

namespace cg = cooperative_groups;

static __global__ void cut_off(const float* x, float* out) {
  __shared__ float tile[256];
  cg::cluster_group cluster = cg::this_cluster();
  const unsigned rank = cluster.block_rank(), next = (rank + 1) % cluster.num_blocks();
  const int64_t first = (blockIdx.x / 4) * int64_t{1024};
  tile[threadIdx.x] = x[first + rank * 256 + threadIdx.x];
  cluster.sync();
  const float* other = cluster.map_shared_rank(tile, next);
  out[first + next * 256 + threadIdx.x] = fmaxf(other[threadIdx.x], 0.0f);
  cluster.sync();
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  cudaLaunchAttribute shape;
  shape.id = cudaLaunchAttributeClusterDimension;
  shape.val.clusterDim.x = 4;
  shape.val.clusterDim.y = 1;
  shape.val.clusterDim.z = 1;
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(N / 256);
  launch.blockDim = dim3(256);
  launch.stream = stream;
  launch.attrs = &shape;
  launch.numAttrs = 1;
  return cudaLaunchKernelEx(&launch, cut_off, x, out);
}
