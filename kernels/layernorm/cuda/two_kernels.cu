// Two kernels. The first leaves mean and squared deviation of many parts of every row in the workspace; each thread
// centres its own batch before it squares, and batches merge by Chan's formula, so a mean of 1000 costs no digits.
// The second gives each block a few columns of every row: weight and bias are read once, not once per row.
// Both walk columns first, the second one backwards, so it begins with what the first left in L2: with KEEP_MB > 0 the
// first asks for as many of its last megabytes to be kept there, and for the others to be dropped first.
//
// tune: THREADS = 256, 512
// tune: BATCH = 2, 4, 8
// tune: ROWS_AT_ONCE = 2, 4, 8
// tune: KEEP_MB = 0, 16, 24, 32, 40
#include <cuda_runtime.h>

#include "contract.h"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef BATCH
#define BATCH 4
#endif
#ifndef ROWS_AT_ONCE
#define ROWS_AT_ONCE 4
#endif
#ifndef KEEP_MB
#define KEEP_MB 0
#endif

namespace {

constexpr int64_t kColumns = norm_weight_numel;
constexpr int kRows = x_numel / kColumns;
static_assert(kColumns % 4 == 0, "rows are read as float4");
constexpr int64_t kVectors = kColumns / 4;
constexpr float kEpsilon = static_cast<float>(eps);
constexpr int kWarps = THREADS / 32;
constexpr int64_t kPart = 4096 * 2;  // float4 in a part: 128 KiB
constexpr int kParts = (kVectors + kPart - 1) / kPart;
static_assert(kPart % (THREADS * BATCH) == 0, "only the last part may end within a batch");

// Count, mean and sum of squared deviations of what was seen so far.
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

constexpr int kKeptParts = KEEP_MB * 1024 * 1024 / (kPart * 16) / kRows;  // of every row

// How L2 shall treat a part of x.
__device__ uint64_t policy_of(int part) {
  uint64_t policy;
  if (part >= kParts - kKeptParts) {
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  } else {
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  }
  return policy;
}

__device__ float4 load(const float4* from, uint64_t policy) {
  if (KEEP_MB == 0) return *from;
  float4 v;
  asm("ld.global.nc.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
      : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
      : "l"(from), "l"(policy));
  return v;
}

__global__ void __launch_bounds__(THREADS) part_moments(const float4* __restrict__ x, Moments* __restrict__ moments) {
  __shared__ Moments partial[kWarps];
  const int row = blockIdx.x % kRows;
  const int part = blockIdx.x / kRows;
  const int64_t end = (part + 1) * kPart < kVectors ? (part + 1) * kPart : kVectors;
  const uint64_t policy = policy_of(part);
  Moments mine = {0.0f, 0.0f, 0.0f};
  for (int64_t base = part * kPart + threadIdx.x; base < end; base += THREADS * BATCH) {
    float4 v[BATCH];
    float sum = 0.0f;
    int seen = 0;
#pragma unroll
    for (int u = 0; u < BATCH; ++u) {
      const bool inside = kVectors % (THREADS * BATCH) == 0 || base + u * THREADS < end;
      if (inside) v[u] = load(x + row * kVectors + base + u * THREADS, policy);
      seen += inside;
    }
    const float pivot = v[0].x;
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
    if (threadIdx.x == 0) moments[row * kParts + part] = mine;
  }
}

__global__ void __launch_bounds__(THREADS)
    normalise(const float4* __restrict__ x, const float4* __restrict__ weight, const float4* __restrict__ bias,
              const Moments* __restrict__ moments, float4* __restrict__ out) {
  __shared__ float2 settled[kRows];  // mean and 1 / deviation
  for (int row = threadIdx.x / 32; row < kRows; row += kWarps) {
    Moments mine = {0.0f, 0.0f, 0.0f};
    for (int part = threadIdx.x % 32; part < kParts; part += 32) mine = merge(mine, moments[row * kParts + part]);
    mine = warp_merge(mine);
    if (threadIdx.x % 32 == 0) settled[row] = make_float2(mine.mean, rsqrtf(mine.squares / kColumns + kEpsilon));
  }
  __syncthreads();
  const int64_t column = static_cast<int64_t>(gridDim.x - 1 - blockIdx.x) * THREADS + threadIdx.x;
  if (column >= kVectors) return;
  const float4 w = __ldcs(weight + column);
  const float4 b = __ldcs(bias + column);
#pragma unroll
  for (int first = 0; first < kRows; first += ROWS_AT_ONCE) {
    float4 v[ROWS_AT_ONCE];
#pragma unroll
    for (int r = 0; r < ROWS_AT_ONCE; ++r) {
      if (first + r < kRows) v[r] = __ldcs(x + (first + r) * kVectors + column);
    }
#pragma unroll
    for (int r = 0; r < ROWS_AT_ONCE; ++r) {
      if (first + r >= kRows) break;
      const float2 each = settled[first + r];
      v[r].x = (v[r].x - each.x) * each.y * w.x + b.x;
      v[r].y = (v[r].y - each.x) * each.y * w.y + b.y;
      v[r].z = (v[r].z - each.x) * each.y * w.z + b.z;
      v[r].w = (v[r].w - each.x) * each.y * w.w + b.w;
      __stcs(out + (first + r) * kVectors + column, v[r]);
    }
  }
}

}  // namespace

extern "C" size_t layernorm_workspace() {
  return sizeof(Moments) * kRows * kParts;
}

extern "C" int layernorm(const float* x, const float* norm_weight, const float* norm_bias, float* out, void* workspace,
                         cudaStream_t stream) {
  Moments* moments = static_cast<Moments*>(workspace);
  const float4* vectors = reinterpret_cast<const float4*>(x);
  part_moments<<<kRows * kParts, THREADS, 0, stream>>>(vectors, moments);
  normalise<<<(kVectors + THREADS - 1) / THREADS, THREADS, 0, stream>>>(
      vectors, reinterpret_cast<const float4*>(norm_weight), reinterpret_cast<const float4*>(norm_bias), moments,
      reinterpret_cast<float4*>(out));
  return cudaGetLastError();
}
