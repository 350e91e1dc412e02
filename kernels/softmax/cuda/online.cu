// One block per row, two passes: maximum and sum together (the sum is rescaled when the maximum grows), then the write.
// The second read of a row comes from L2 for as many rows as are in flight at once.
//
// tune: THREADS = 256, 512, 1024
// tune: UNROLL = 2, 4, 8
#include <cuda_runtime.h>

#include <cmath>

#include "contract.h"

#ifndef THREADS
#define THREADS 1024
#endif
#ifndef UNROLL
#define UNROLL 4
#endif

namespace {

static_assert(x_dim1 % 4 == 0, "rows are read as float4");
constexpr int64_t kVectors = x_dim1 / 4;  // float4 in a row
constexpr int64_t kRows = x_numel / x_dim1;
constexpr int kWarps = THREADS / 32;
constexpr int kUnroll = UNROLL;

// Maximum and sum of exp(value - maximum) over what was seen so far.
struct Moments {
  float highest;
  float sum;
};

__device__ Moments merge(Moments a, Moments b) {
  const float highest = fmaxf(a.highest, b.highest);
  if (highest == -INFINITY) return {highest, a.sum + b.sum};  // nothing but -inf on either side
  return {highest, a.sum * expf(a.highest - highest) + b.sum * expf(b.highest - highest)};
}

__device__ Moments block_merge(Moments value) {
  __shared__ Moments partial[kWarps];
  for (int offset = 16; offset > 0; offset /= 2) {
    value = merge(value, {__shfl_xor_sync(0xffffffffu, value.highest, offset),
                          __shfl_xor_sync(0xffffffffu, value.sum, offset)});
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = partial[threadIdx.x % 32 % kWarps];
  if (threadIdx.x % 32 >= kWarps) value = {-INFINITY, 0.0f};
  for (int offset = 16; offset > 0; offset /= 2) {
    value = merge(value, {__shfl_xor_sync(0xffffffffu, value.highest, offset),
                          __shfl_xor_sync(0xffffffffu, value.sum, offset)});
  }
  return value;
}

__global__ void __launch_bounds__(THREADS) softmax_online(const float4* __restrict__ x, float4* __restrict__ out) {
  const float4* row = x + blockIdx.x * kVectors;
  float4* result = out + blockIdx.x * kVectors;
  Moments mine = {-INFINITY, 0.0f};
  for (int64_t base = threadIdx.x; base < kVectors; base += THREADS * UNROLL) {
    float4 v[UNROLL];
    float highest = mine.highest;
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const int64_t i = base + u * THREADS;
      v[u] = i < kVectors ? row[i] : make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
      highest = fmaxf(highest, fmaxf(fmaxf(v[u].x, v[u].y), fmaxf(v[u].z, v[u].w)));
    }
    const float shift = highest == -INFINITY ? 0.0f : highest;
    float sum = mine.sum * expf(mine.highest - shift);
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      sum += (expf(v[u].x - shift) + expf(v[u].y - shift)) + (expf(v[u].z - shift) + expf(v[u].w - shift));
    }
    mine = {highest, sum};
  }
  const Moments all = block_merge(mine);
  const float scale = 1.0f / all.sum;
#pragma unroll kUnroll
  for (int64_t i = threadIdx.x; i < kVectors; i += THREADS) {
    float4 v = __ldcs(row + i);  // last use
    v.x = expf(v.x - all.highest) * scale;
    v.y = expf(v.y - all.highest) * scale;
    v.z = expf(v.z - all.highest) * scale;
    v.w = expf(v.w - all.highest) * scale;
    __stcs(result + i, v);
  }
}

}  // namespace

extern "C" int softmax(const float* x, float* out, void* workspace, cudaStream_t stream) {
  softmax_online<<<kRows, THREADS, 0, stream>>>(reinterpret_cast<const float4*>(x), reinterpret_cast<float4*>(out));
  return cudaGetLastError();
}
