// Plain float32: a 128 x 128 tile per block, 8 x 8 results per thread, operands double-buffered in shared memory with
// the next slice fetched into registers while the present one is multiplied.
//
// tune: SLICE = 8, 16
// tune: GROUP = 4, 8, 16
#include <cuda_runtime.h>

#include "contract.h"

#ifndef SLICE
#define SLICE 16
#endif
#ifndef GROUP
#define GROUP 8
#endif

namespace {

constexpr int64_t kM = a_dim0;
constexpr int64_t kK = a_dim1;
constexpr int64_t kColumns = b_dim1;
constexpr int kTile = 128;
constexpr int kThreads = 256;
constexpr int kPad = 4;
constexpr int kLoads = kTile * SLICE / 4 / kThreads;  // float4 per thread, operand and slice
constexpr int kRowTiles = (kM + kTile - 1) / kTile;
constexpr int kColumnTiles = (kColumns + kTile - 1) / kTile;
static_assert(kK % SLICE == 0 && kColumns % 4 == 0 && kK % 4 == 0, "operands are read as float4, k in whole slices");

__device__ float4 load_or_zero(const float* pointer, bool inside) {
  return inside ? __ldg(reinterpret_cast<const float4*>(pointer)) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

__global__ void __launch_bounds__(kThreads, 2)
    matmul_tile(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out) {
  __shared__ __align__(16) float a_slice[2][SLICE][kTile + kPad];  // k-major, so that rows are read as float4
  __shared__ __align__(16) float b_slice[2][SLICE][kTile];
  // Blocks walk GROUP row tiles before the next column tile: neighbours in time share operands in L2.
  const int per_group = GROUP * kColumnTiles;
  const int first_tile = blockIdx.x / per_group * GROUP;
  const int height = kRowTiles - first_tile < GROUP ? kRowTiles - first_tile : GROUP;
  const int64_t row0 = static_cast<int64_t>(first_tile + blockIdx.x % per_group % height) * kTile;
  const int64_t column0 = static_cast<int64_t>(blockIdx.x % per_group / height) * kTile;
  const int tx = threadIdx.x % 16;
  const int ty = threadIdx.x / 16;

  float4 a_next[kLoads];
  float4 b_next[kLoads];
  auto fetch = [&](int64_t k) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int index = threadIdx.x + i * kThreads;
      const int row = index / (SLICE / 4), k_a = index % (SLICE / 4) * 4;
      const int k_b = index / (kTile / 4), column = index % (kTile / 4) * 4;
      a_next[i] = load_or_zero(a + (row0 + row) * kK + k + k_a, kM % kTile == 0 || row0 + row < kM);
      b_next[i] = load_or_zero(b + (k + k_b) * kColumns + column0 + column,
                               kColumns % kTile == 0 || column0 + column < kColumns);
    }
  };
  auto store = [&](int buffer) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int index = threadIdx.x + i * kThreads;
      const int row = index / (SLICE / 4), k_a = index % (SLICE / 4) * 4;
      const int k_b = index / (kTile / 4), column = index % (kTile / 4) * 4;
      a_slice[buffer][k_a][row] = a_next[i].x;
      a_slice[buffer][k_a + 1][row] = a_next[i].y;
      a_slice[buffer][k_a + 2][row] = a_next[i].z;
      a_slice[buffer][k_a + 3][row] = a_next[i].w;
      *reinterpret_cast<float4*>(&b_slice[buffer][k_b][column]) = b_next[i];
    }
  };

  float sums[8][8] = {};
  fetch(0);
  store(0);
  __syncthreads();
  for (int64_t k = 0; k < kK; k += SLICE) {
    const int buffer = k / SLICE & 1;
    const bool more = k + SLICE < kK;
    if (more) fetch(k + SLICE);
#pragma unroll
    for (int i = 0; i < SLICE; ++i) {
      float a_part[8];
      float b_part[8];
      *reinterpret_cast<float4*>(a_part) = *reinterpret_cast<float4*>(&a_slice[buffer][i][ty * 4]);
      *reinterpret_cast<float4*>(a_part + 4) = *reinterpret_cast<float4*>(&a_slice[buffer][i][64 + ty * 4]);
      *reinterpret_cast<float4*>(b_part) = *reinterpret_cast<float4*>(&b_slice[buffer][i][tx * 4]);
      *reinterpret_cast<float4*>(b_part + 4) = *reinterpret_cast<float4*>(&b_slice[buffer][i][64 + tx * 4]);
#pragma unroll
      for (int r = 0; r < 8; ++r) {
#pragma unroll
        for (int c = 0; c < 8; ++c) sums[r][c] += a_part[r] * b_part[c];
      }
    }
    if (more) store(buffer ^ 1);
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    const int64_t row = row0 + (r / 4) * 64 + ty * 4 + r % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t column = column0 + half * 64 + tx * 4;
      if (row < kM && column < kColumns) {
        *reinterpret_cast<float4*>(out + row * kColumns + column) =
            make_float4(sums[r][half * 4], sums[r][half * 4 + 1], sums[r][half * 4 + 2], sums[r][half * 4 + 3]);
      }
    }
  }
}

}  // namespace

extern "C" int matmul_fp32(const float* a, const float* b, float* out, void* workspace, cudaStream_t stream) {
  matmul_tile<<<kRowTiles * kColumnTiles, kThreads, 0, stream>>>(a, b, out);
  return cudaGetLastError();
}
