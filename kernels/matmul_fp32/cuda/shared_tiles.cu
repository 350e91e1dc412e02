// Blocks of 64 x 64 results, slices of both operands in shared memory, 4 x 4 results per thread. The next slice is
// fetched into registers while this one is multiplied.
//
// tune: SLICE = 8, 16, 32
#include <cuda_runtime.h>

#include "contract.h"

#ifndef SLICE
#define SLICE 16
#endif

namespace {

constexpr int64_t kM = a_dim0;
constexpr int64_t kK = a_dim1;
constexpr int64_t kColumns = b_dim1;
constexpr int kTile = 64;
constexpr int kThreads = 256;
constexpr int kFetch = kTile * SLICE / kThreads;  // elements of each operand per thread
static_assert(SLICE <= 32 && kThreads % kTile == 0, "a slice is fetched in whole rows");

__global__ void __launch_bounds__(kThreads)
    matmul_tiles(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out) {
  __shared__ float a_tile[SLICE][kTile + 4];  // transposed; rows stay 16-byte aligned
  __shared__ float b_tile[SLICE][kTile];
  const int64_t row0 = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t column0 = static_cast<int64_t>(blockIdx.x) * kTile;
  const int y = threadIdx.x / 16 * 4;
  const int x = threadIdx.x % 16 * 4;
  float next_a[kFetch];
  float next_b[kFetch];
  auto fetch = [&](int64_t k0) {
#pragma unroll
    for (int i = 0; i < kFetch; ++i) {
      const int at = threadIdx.x + i * kThreads;
      const int64_t row = row0 + at / SLICE;
      const int64_t k_of_a = k0 + at % SLICE;
      const int64_t column = column0 + at % kTile;
      const int64_t k_of_b = k0 + at / kTile;
      next_a[i] = row < kM && k_of_a < kK ? a[row * kK + k_of_a] : 0.0f;
      next_b[i] = column < kColumns && k_of_b < kK ? b[k_of_b * kColumns + column] : 0.0f;
    }
  };
  float sums[4][4] = {};
  fetch(0);
  for (int64_t k0 = 0; k0 < kK; k0 += SLICE) {
#pragma unroll
    for (int i = 0; i < kFetch; ++i) {
      const int at = threadIdx.x + i * kThreads;
      a_tile[at % SLICE][at / SLICE] = next_a[i];
      b_tile[at / kTile][at % kTile] = next_b[i];
    }
    __syncthreads();
    if (k0 + SLICE < kK) fetch(k0 + SLICE);
#pragma unroll
    for (int k = 0; k < SLICE; ++k) {
      const float4 left = *reinterpret_cast<const float4*>(&a_tile[k][y]);
      const float4 right = *reinterpret_cast<const float4*>(&b_tile[k][x]);
      const float l[4] = {left.x, left.y, left.z, left.w};
      const float r[4] = {right.x, right.y, right.z, right.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] = fmaf(l[i], r[j], sums[i][j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const bool inside = row0 + y + i < kM && column0 + x + j < kColumns;
      if (inside) out[(row0 + y + i) * kColumns + column0 + x + j] = sums[i][j];
    }
  }
}

}  // namespace

extern "C" int matmul_fp32(const float* a, const float* b, float* out, void* workspace, cudaStream_t stream) {
  const dim3 grid((kColumns + kTile - 1) / kTile, (kM + kTile - 1) / kTile);
  matmul_tiles<<<grid, kThreads, 0, stream>>>(a, b, out);
  return cudaGetLastError();
}
