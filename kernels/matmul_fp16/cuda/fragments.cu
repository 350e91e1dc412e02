// Tensor cores through the portable fragment interface: 128 x 128 tiles of the result, eight warps of 64 x 32, slices of
// both operands in shared memory by asynchronous copies, STAGES deep. Sums in float32, rounded once.
//
// tune: STAGES = 3, 4, 5
// tune: SLICE = 32, 64
// tune-if: STAGES * SLICE <= 256
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>
#include <mma.h>

#include "contract.h"

#ifndef STAGES
#define STAGES 4
#endif
#ifndef SLICE
#define SLICE 32
#endif

namespace {

using namespace nvcuda;

constexpr int kM = a_dim0;
constexpr int kK = a_dim1;
constexpr int kColumns = b_dim1;
constexpr int kTile = 128;
constexpr int kThreads = 256;
static_assert(kM % kTile == 0 && kColumns % kTile == 0 && kK % SLICE == 0, "whole tiles only");
constexpr int kAPitch = SLICE + 8;  // 16 bytes more: rows fall on other banks
constexpr int kBPitch = kTile + 8;
constexpr int kAHalves = kTile * kAPitch;
constexpr int kStageHalves = kAHalves + SLICE * kBPitch;
constexpr int kOutPitch = 36;  // floats; a warp's 64 x 32 results
constexpr int kRingBytes = STAGES * kStageHalves * 2;
constexpr int kOutBytes = 8 * 64 * kOutPitch * 4;
constexpr int kShared = kRingBytes > kOutBytes ? kRingBytes : kOutBytes;
constexpr int kGroup = 8;  // rows of tiles before the next column

using Left = wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major>;
using Right = wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major>;
using Sum = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

__device__ void load_slice(const __half* __restrict__ a, const __half* __restrict__ b, __half* stage) {
#pragma unroll
  for (int i = threadIdx.x; i < kTile * SLICE / 8; i += kThreads) {
    const int row = i / (SLICE / 8);
    const int column = i % (SLICE / 8) * 8;
    __pipeline_memcpy_async(stage + row * kAPitch + column, a + static_cast<int64_t>(row) * kK + column, 16);
  }
#pragma unroll
  for (int i = threadIdx.x; i < SLICE * kTile / 8; i += kThreads) {
    const int row = i / (kTile / 8);
    const int column = i % (kTile / 8) * 8;
    __pipeline_memcpy_async(stage + kAHalves + row * kBPitch + column, b + static_cast<int64_t>(row) * kColumns + column,
                            16);
  }
}

__global__ void __launch_bounds__(kThreads)
    matmul_fragments(const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ out) {
  extern __shared__ __align__(128) unsigned char raw[];
  __half* ring = reinterpret_cast<__half*>(raw);
  constexpr int kPerGroup = kGroup * (kColumns / kTile);
  const int first = blockIdx.x / kPerGroup * kGroup;
  const int height = min(kGroup, kM / kTile - first);
  const int row0 = (first + blockIdx.x % kPerGroup % height) * kTile;
  const int column0 = blockIdx.x % kPerGroup / height * kTile;
  const int warp = threadIdx.x / 32;
  const int warp_row = warp / 4 * 64;
  const int warp_column = warp % 4 * 32;
  a += static_cast<int64_t>(row0) * kK;
  b += column0;

  Sum sums[4][2];
#pragma unroll
  for (int m = 0; m < 4; ++m) {
#pragma unroll
    for (int n = 0; n < 2; ++n) wmma::fill_fragment(sums[m][n], 0.0f);
  }
  constexpr int kSlices = kK / SLICE;
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < kSlices) load_slice(a + s * SLICE, b + static_cast<int64_t>(s) * SLICE * kColumns, ring + s * kStageHalves);
    __pipeline_commit();
  }
  for (int s = 0; s < kSlices; ++s) {
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    const int ahead = s + STAGES - 1;
    if (ahead < kSlices) {
      load_slice(a + ahead * SLICE, b + static_cast<int64_t>(ahead) * SLICE * kColumns,
                 ring + ahead % STAGES * kStageHalves);
    }
    __pipeline_commit();
    const __half* stage = ring + s % STAGES * kStageHalves;
#pragma unroll
    for (int k = 0; k < SLICE; k += 16) {
      Left left[4];
      Right right[2];
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        wmma::load_matrix_sync(left[m], stage + (warp_row + m * 16) * kAPitch + k, kAPitch);
      }
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        wmma::load_matrix_sync(right[n], stage + kAHalves + k * kBPitch + warp_column + n * 16, kBPitch);
      }
#pragma unroll
      for (int m = 0; m < 4; ++m) {
#pragma unroll
        for (int n = 0; n < 2; ++n) wmma::mma_sync(sums[m][n], left[m], right[n], sums[m][n]);
      }
    }
  }
  __pipeline_wait_prior(0);
  __syncthreads();
  float* results = reinterpret_cast<float*>(raw) + warp * 64 * kOutPitch;
#pragma unroll
  for (int m = 0; m < 4; ++m) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      wmma::store_matrix_sync(results + m * 16 * kOutPitch + n * 16, sums[m][n], kOutPitch, wmma::mem_row_major);
    }
  }
  __syncwarp();
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int row = lane / 4; row < 64; row += 8) {
    const float* from = results + row * kOutPitch + lane % 4 * 8;
    __half2 packed[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) packed[i] = __floats2half2_rn(from[i * 2], from[i * 2 + 1]);
    __half* to = out + static_cast<int64_t>(row0 + warp_row + row) * kColumns + column0 + warp_column + lane % 4 * 8;
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(packed);
  }
}

}  // namespace

extern "C" int matmul_fp16(const __half* a, const __half* b, __half* out, void* workspace, cudaStream_t stream) {
  cudaFuncSetAttribute(matmul_fragments, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  matmul_fragments<<<kM / kTile * (kColumns / kTile), kThreads, kShared, stream>>>(a, b, out);
  return cudaGetLastError();
}
