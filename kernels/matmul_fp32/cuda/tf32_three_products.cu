// Matrix units with float32 accuracy: each operand is split into a tf32 value and the tf32 rest, and three products
// (high x high, high x low, low x high) are summed; the dropped low x low lies below float32's own rounding.
// High products are added up in short runs and promoted to float32 sums, since matrix units truncate when they add.
// The split happens in registers: no extra memory traffic, no workspace, the whole range of float32.
//
// tune: STAGES = 3, 4
// tune: GROUP = 4, 8, 16
// tune: BLOCK_N = 64, 128
#include <cuda_runtime.h>

#include "contract.h"

#ifndef STAGES
#define STAGES 3
#endif
#ifndef GROUP
#define GROUP 8
#endif
#ifndef BLOCK_N
#define BLOCK_N 128
#endif

namespace {

constexpr int64_t kM = a_dim0;
constexpr int64_t kK = a_dim1;
constexpr int64_t kColumns = b_dim1;
constexpr int kBlockM = 128;
constexpr int kSlice = 32;
constexpr int kThreads = 256;
constexpr int kWarpN = BLOCK_N / 4;  // 2 x 4 warps, each 64 x kWarpN
constexpr int kTilesN = kWarpN / 8;
constexpr int kStrideA = kSlice + 4;   // floats; both strides keep fragment loads free of bank conflicts
constexpr int kStrideB = BLOCK_N + 8;
constexpr int kStageFloats = kBlockM * kStrideA + kSlice * kStrideB;
constexpr int kShared = STAGES * kStageFloats * 4;
constexpr int kRowTiles = (kM + kBlockM - 1) / kBlockM;
constexpr int kColumnTiles = (kColumns + BLOCK_N - 1) / BLOCK_N;
constexpr int kSlices = (kK + kSlice - 1) / kSlice;
static_assert(kK % 4 == 0 && kColumns % 4 == 0, "operands are copied 16 bytes at a time");

__device__ void copy16(uint32_t destination, const float* source, bool inside) {
  const int bytes = inside ? 16 : 0;  // the rest is filled with zeros
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(destination), "l"(source), "r"(bytes) : "memory");
}

__device__ void split(float value, uint32_t& high, uint32_t& low) {
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(high) : "f"(value));
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(low) : "f"(value - __uint_as_float(high)));
}

__device__ void multiply(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__global__ void __launch_bounds__(kThreads, 1)
    matmul_tf32(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out) {
  extern __shared__ __align__(16) float shared[];
  const int per_group = GROUP * kColumnTiles;
  const int first_tile = blockIdx.x / per_group * GROUP;
  const int height = kRowTiles - first_tile < GROUP ? kRowTiles - first_tile : GROUP;
  const int64_t row0 = static_cast<int64_t>(first_tile + blockIdx.x % per_group % height) * kBlockM;
  const int64_t column0 = static_cast<int64_t>(blockIdx.x % per_group / height) * BLOCK_N;
  const int lane = threadIdx.x % 32;
  const int warp_m = threadIdx.x / 32 / 4 * 64;
  const int warp_n = threadIdx.x / 32 % 4 * kWarpN;
  const int g = lane / 4;
  const int t = lane % 4;

  auto fetch = [&](int slice) {
    float* a_stage = shared + slice % STAGES * kStageFloats;
    float* b_stage = a_stage + kBlockM * kStrideA;
    const int64_t k = static_cast<int64_t>(slice) * kSlice;
#pragma unroll
    for (int i = 0; i < kBlockM * kSlice / 4 / kThreads; ++i) {
      const int index = threadIdx.x + i * kThreads;
      const int row = index / (kSlice / 4), column = index % (kSlice / 4) * 4;
      const bool inside = row0 + row < kM && k + column < kK;
      copy16(static_cast<uint32_t>(__cvta_generic_to_shared(a_stage + row * kStrideA + column)),
             inside ? a + (row0 + row) * kK + k + column : a, inside);
    }
#pragma unroll
    for (int i = 0; i < BLOCK_N * kSlice / 4 / kThreads; ++i) {
      const int index = threadIdx.x + i * kThreads;
      const int row = index / (BLOCK_N / 4), column = index % (BLOCK_N / 4) * 4;
      const bool inside = k + row < kK && column0 + column < kColumns;
      copy16(static_cast<uint32_t>(__cvta_generic_to_shared(b_stage + row * kStrideB + column)),
             inside ? b + (k + row) * kColumns + column0 + column : b, inside);
    }
  };

  float sums[4][kTilesN][4] = {};
  for (int ahead = 0; ahead < STAGES - 1; ++ahead) {
    if (ahead < kSlices) fetch(ahead);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  for (int slice = 0; slice < kSlices; ++slice) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    if (slice + STAGES - 1 < kSlices) fetch(slice + STAGES - 1);
    asm volatile("cp.async.commit_group;" ::: "memory");
    const float* a_stage = shared + slice % STAGES * kStageFloats + (warp_m + g) * kStrideA + t;
    const float* b_stage = shared + slice % STAGES * kStageFloats + kBlockM * kStrideA + t * kStrideB + warp_n + g;
    float part[4][kTilesN][4] = {};  // short sums of this slice
#pragma unroll
    for (int k = 0; k < kSlice; k += 8) {
      uint32_t b_high[kTilesN][2], b_low[kTilesN][2];
#pragma unroll
      for (int n = 0; n < kTilesN; ++n) {
        split(b_stage[k * kStrideB + n * 8], b_high[n][0], b_low[n][0]);
        split(b_stage[(k + 4) * kStrideB + n * 8], b_high[n][1], b_low[n][1]);
      }
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        uint32_t a_high[4], a_low[4];
        split(a_stage[m * 16 * kStrideA + k], a_high[0], a_low[0]);
        split(a_stage[(m * 16 + 8) * kStrideA + k], a_high[1], a_low[1]);
        split(a_stage[m * 16 * kStrideA + k + 4], a_high[2], a_low[2]);
        split(a_stage[(m * 16 + 8) * kStrideA + k + 4], a_high[3], a_low[3]);
#pragma unroll
        for (int n = 0; n < kTilesN; ++n) multiply(part[m][n], a_low, b_high[n]);
#pragma unroll
        for (int n = 0; n < kTilesN; ++n) multiply(part[m][n], a_high, b_low[n]);
#pragma unroll
        for (int n = 0; n < kTilesN; ++n) multiply(part[m][n], a_high, b_high[n]);
      }
    }
#pragma unroll
    for (int m = 0; m < 4; ++m) {
#pragma unroll
      for (int n = 0; n < kTilesN; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[m][n][i] += part[m][n][i];
      }
    }
  }
#pragma unroll
  for (int m = 0; m < 4; ++m) {
#pragma unroll
    for (int n = 0; n < kTilesN; ++n) {
      const int64_t row = row0 + warp_m + m * 16 + g;
      const int64_t column = column0 + warp_n + n * 8 + t * 2;
      if (column >= kColumns) continue;
      if (row < kM) {
        *reinterpret_cast<float2*>(out + row * kColumns + column) = make_float2(sums[m][n][0], sums[m][n][1]);
      }
      if (row + 8 < kM) {
        *reinterpret_cast<float2*>(out + (row + 8) * kColumns + column) = make_float2(sums[m][n][2], sums[m][n][3]);
      }
    }
  }
}

}  // namespace

extern "C" int matmul_fp32(const float* a, const float* b, float* out, void* workspace, cudaStream_t stream) {
  cudaFuncSetAttribute(matmul_tf32, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  matmul_tf32<<<kRowTiles * kColumnTiles, kThreads, kShared, stream>>>(a, b, out);
  return cudaGetLastError();
}
