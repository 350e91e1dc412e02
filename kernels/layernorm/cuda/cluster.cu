// One launch, no workspace: a cluster of blocks takes one row, walks it for mean and squared deviation, settles them
// through distributed shared memory, and walks it again, backwards, to write.
//
// tune: CLUSTER = 4, 8
// tune: THREADS = 512, 1024
// tune: BATCH = 4, 8
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include "contract.h"

#ifndef CLUSTER
#define CLUSTER 8
#endif
#ifndef THREADS
#define THREADS 1024
#endif
#ifndef BATCH
#define BATCH 4
#endif

namespace {

namespace cg = cooperative_groups;

constexpr int64_t kColumns = norm_weight_numel;
constexpr int kRows = x_numel / kColumns;
static_assert(kColumns % 4 == 0, "rows are read as float4");
constexpr int64_t kVectors = kColumns / 4;
constexpr float kEpsilon = static_cast<float>(eps);
constexpr int kWarps = THREADS / 32;
constexpr int64_t kStride = CLUSTER * THREADS;
constexpr int64_t kStep = kStride * BATCH;
constexpr int64_t kSteps = (kVectors + kStep - 1) / kStep;

struct Moments {
  float count;
  float mean;
  float squares;
};

__device__ Moments merge(Moments a, Moments b) {
  const float count = a.count + b.count;
  if (count == 0.0f) return a;
  const float delta = b.mean - a.mean;
  const float share = b.count / count;
  return {count, a.mean + delta * share, a.squares + b.squares + delta * delta * a.count * share};
}

__device__ Moments warp_merge(Moments value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value = merge(value, {__shfl_xor_sync(0xffffffffu, value.count, offset),
                          __shfl_xor_sync(0xffffffffu, value.mean, offset),
                          __shfl_xor_sync(0xffffffffu, value.squares, offset)});
  }
  return value;
}

__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    layernorm_cluster(const float4* __restrict__ x, const float4* __restrict__ weight, const float4* __restrict__ bias,
                      float4* __restrict__ out) {
  __shared__ Moments partial[kWarps];
  __shared__ Moments settled;
  const cg::cluster_group cluster = cg::this_cluster();
  const int64_t row = blockIdx.x / CLUSTER;
  const int64_t first = static_cast<int64_t>(cluster.block_rank()) * THREADS + threadIdx.x;
  x += row * kVectors;
  out += row * kVectors;

  Moments mine = {0.0f, 0.0f, 0.0f};
  for (int64_t step = 0; step < kSteps; ++step) {
    float4 v[BATCH];
    int seen = 0;
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      const int64_t column = step * kStep + u * kStride + first;
      const bool inside = kVectors % kStep == 0 || column < kVectors;
      if (inside) v[u] = x[column];
      seen += inside;
    }
    if (seen == 0) break;
    const float pivot = v[0].x;
    float sum = 0.0f;
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      if (u < seen) sum += ((v[u].x - pivot) + (v[u].y - pivot)) + ((v[u].z - pivot) + (v[u].w - pivot));
    }
    const float mean = sum / (4 * seen) + pivot;
    float squares = 0.0f;
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      if (u >= seen) continue;
      const float a = v[u].x - mean, b = v[u].y - mean, c = v[u].z - mean, d = v[u].w - mean;
      squares += (a * a + b * b) + (c * c + d * d);
    }
    mine = merge(mine, {4.0f * seen, mean, squares});
  }
  mine = warp_merge(mine);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x < 32) {
    mine = {0.0f, 0.0f, 0.0f};
    if (threadIdx.x < kWarps) mine = partial[threadIdx.x];
    mine = warp_merge(mine);
    if (threadIdx.x == 0) settled = mine;
  }
  cluster.sync();
  Moments all = {0.0f, 0.0f, 0.0f};
  for (int rank = 0; rank < CLUSTER; ++rank) all = merge(all, *cluster.map_shared_rank(&settled, rank));
  cluster.sync();  // nobody leaves while `settled` is read

  const float scale = rsqrtf(all.squares / kColumns + kEpsilon);
  for (int64_t step = kSteps - 1; step >= 0; --step) {
    float4 v[BATCH];
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      const int64_t column = step * kStep + u * kStride + first;
      if (kVectors % kStep == 0 || column < kVectors) v[u] = __ldcs(x + column);
    }
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      const int64_t column = step * kStep + u * kStride + first;
      if (kVectors % kStep != 0 && column >= kVectors) break;
      const float4 w = weight[column];
      const float4 b = bias[column];
      v[u].x = (v[u].x - all.mean) * scale * w.x + b.x;
      v[u].y = (v[u].y - all.mean) * scale * w.y + b.y;
      v[u].z = (v[u].z - all.mean) * scale * w.z + b.z;
      v[u].w = (v[u].w - all.mean) * scale * w.w + b.w;
      __stcs(out + column, v[u]);
    }
  }
}

}  // namespace

extern "C" int layernorm(const float* x, const float* norm_weight, const float* norm_bias, float* out, void* workspace,
                         cudaStream_t stream) {
  layernorm_cluster<<<kRows * CLUSTER, THREADS, 0, stream>>>(
      reinterpret_cast<const float4*>(x), reinterpret_cast<const float4*>(norm_weight),
      reinterpret_cast<const float4*>(norm_bias), reinterpret_cast<float4*>(out));
  return cudaGetLastError();
}
