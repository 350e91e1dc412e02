// A cluster of blocks holds one row in its registers: x is read once and out is written once.
// Each block finds its own maximum and sum; one exchange through distributed shared memory settles the row.
//
// tune: CLUSTER = 2, 4, 8
// tune: THREADS = 256, 512, 1024
// tune-if: CLUSTER * THREADS >= 1024 and CLUSTER * THREADS <= 4096
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cmath>

#include "contract.h"

#ifndef CLUSTER
#define CLUSTER 4
#endif
#ifndef THREADS
#define THREADS 512
#endif

namespace {

namespace cg = cooperative_groups;

static_assert(x_dim1 % 4 == 0, "rows are read as float4");
constexpr int kVectors = x_dim1 / 4;  // float4 in a row
constexpr int kRows = x_numel / x_dim1;
constexpr int kStride = CLUSTER * THREADS;
constexpr int kPerThread = (kVectors + kStride - 1) / kStride;
constexpr int kWarps = THREADS / 32;
static_assert(kPerThread <= 16, "a row must fit the registers of its cluster");

__device__ float block_max(float value) {
  __shared__ float partial[kWarps];
  for (int offset = 16; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[threadIdx.x % kWarps];
  for (int offset = 16; offset > 0; offset /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

__device__ float block_sum(float value) {
  __shared__ float partial[kWarps];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x % 32 < kWarps ? partial[threadIdx.x % 32] : 0.0f;
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

__global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS)
    softmax_cluster(const float4* __restrict__ x, float4* __restrict__ out) {
  __shared__ float2 settled;  // this block's maximum and sum
  const cg::cluster_group cluster = cg::this_cluster();
  const int64_t row = blockIdx.x / CLUSTER;
  const int first = static_cast<int>(cluster.block_rank()) * THREADS + threadIdx.x;

  float4 v[kPerThread];
  float highest = -INFINITY;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int column = first + i * kStride;
    v[i] = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
    if (kVectors % kStride == 0 || column < kVectors) v[i] = __ldcs(x + row * kVectors + column);
  }
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    highest = fmaxf(highest, fmaxf(fmaxf(v[i].x, v[i].y), fmaxf(v[i].z, v[i].w)));
  }
  highest = block_max(highest);
  const float shift = highest == -INFINITY ? 0.0f : highest;  // a block may see nothing but -inf
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    v[i].x = expf(v[i].x - shift);
    v[i].y = expf(v[i].y - shift);
    v[i].z = expf(v[i].z - shift);
    v[i].w = expf(v[i].w - shift);
    sum += (v[i].x + v[i].y) + (v[i].z + v[i].w);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) settled = make_float2(highest, sum);
  cluster.sync();

  float2 others[CLUSTER];
  float row_max = -INFINITY;
#pragma unroll
  for (int rank = 0; rank < CLUSTER; ++rank) {
    others[rank] = *cluster.map_shared_rank(&settled, rank);
    row_max = fmaxf(row_max, others[rank].x);
  }
  float row_sum = 0.0f;
#pragma unroll
  for (int rank = 0; rank < CLUSTER; ++rank) {
    // exp(-inf - -inf) would be NaN where a block saw nothing
    row_sum += others[rank].x == -INFINITY ? others[rank].y : others[rank].y * expf(others[rank].x - row_max);
  }
  auto token = cluster.barrier_arrive();  // the others may still read `settled`
  const float scale = (highest == -INFINITY ? 1.0f : expf(highest - row_max)) / row_sum;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int column = first + i * kStride;
    v[i].x *= scale;
    v[i].y *= scale;
    v[i].z *= scale;
    v[i].w *= scale;
    if (kVectors % kStride == 0 || column < kVectors) __stcs(out + row * kVectors + column, v[i]);
  }
  cluster.barrier_wait(std::move(token));
}

}  // namespace

extern "C" int softmax(const float* x, float* out, void* workspace, cudaStream_t stream) {
  softmax_cluster<<<kRows * CLUSTER, THREADS, 0, stream>>>(reinterpret_cast<const float4*>(x),
                                                          reinterpret_cast<float4*>(out));
  return cudaGetLastError();
}
