// Attention, one thread per query: keys and values of a head pass through shared memory, a running maximum and sum
// rescale the result as they go. Scores never reach memory.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>

#include "contract.h"

namespace {

constexpr int kDepth = q_dim3;
constexpr int kQueries = q_dim2;
constexpr int kKeys = k_dim2;
constexpr int64_t kHeads = q_dim0 * q_dim1;
constexpr int kThreads = 128;
constexpr int kBlock = 32;  // keys at a time

__global__ void attention_kernel(const __half* __restrict__ q, const __half* __restrict__ k,
                                 const __half* __restrict__ v, __half* __restrict__ out) {
  __shared__ float keys[kBlock][kDepth];
  __shared__ float values[kBlock][kDepth];
  const int64_t head = blockIdx.y;
  const int row = blockIdx.x * kThreads + threadIdx.x;
  const int64_t mine = (head * kQueries + (row < kQueries ? row : 0)) * kDepth;
  const float scale = rsqrtf(static_cast<float>(kDepth));
  float query[kDepth];
  float sums[kDepth];
  for (int d = 0; d < kDepth; ++d) {
    query[d] = __half2float(q[mine + d]) * scale;
    sums[d] = 0.0f;
  }
  float highest = -INFINITY;
  float total = 0.0f;
  for (int first = 0; first < kKeys; first += kBlock) {
    const int count = kKeys - first < kBlock ? kKeys - first : kBlock;
    __syncthreads();
    for (int i = threadIdx.x; i < count * kDepth; i += kThreads) {
      keys[i / kDepth][i % kDepth] = __half2float(k[(head * kKeys + first) * kDepth + i]);
      values[i / kDepth][i % kDepth] = __half2float(v[(head * kKeys + first) * kDepth + i]);
    }
    __syncthreads();
    for (int j = 0; j < count; ++j) {
      float score = 0.0f;
      for (int d = 0; d < kDepth; ++d) score += query[d] * keys[j][d];
      if (score > highest) {
        const float shrink = expf(highest - score);
        for (int d = 0; d < kDepth; ++d) sums[d] *= shrink;
        total *= shrink;
        highest = score;
      }
      const float weight = expf(score - highest);
      total += weight;
      for (int d = 0; d < kDepth; ++d) sums[d] += weight * values[j][d];
    }
  }
  if (row >= kQueries) return;
  for (int d = 0; d < kDepth; ++d) out[mine + d] = __float2half_rn(sums[d] / total);
}

}  // namespace

extern "C" int attention_fp16(const __half* q, const __half* k, const __half* v, __half* out, void* workspace,
                              cudaStream_t stream) {
  const dim3 grid((kQueries + kThreads - 1) / kThreads, kHeads);
  attention_kernel<<<grid, kThreads, 0, stream>>>(q, k, v, out);
  return cudaGetLastError();
}
