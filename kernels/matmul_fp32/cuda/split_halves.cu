// float32 accuracy from half-precision matrix units: every row of a and column of b is scaled by a power of two, each
// value split into a half and the half rest (22 bits), both packed tile by tile in the order the matrix units read.
// Three products (high x high, high x low, low x high) run on warpgroup matrix instructions fed by the copy engine.
// Matrix units truncate when they add, so sums are kept short (64 products) and promoted to float32 registers.
// Scaling keeps the whole range of float32; infinities come out as NaN.
// Needs compute capability 9.0a.
//
// tune: STAGES = 2, 3
// tune: GROUP = 4, 8, 16
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "contract.h"

#ifndef STAGES
#define STAGES 3
#endif
#ifndef GROUP
#define GROUP 8
#endif

namespace {

constexpr int64_t kM = a_dim0;
constexpr int64_t kK = a_dim1;
constexpr int64_t kColumns = b_dim1;
constexpr int kTile = 128;   // rows of a, columns of b
constexpr int kSlice = 64;   // k of one stage
constexpr int kRowTiles = (kM + kTile - 1) / kTile;
constexpr int kColumnTiles = (kColumns + kTile - 1) / kTile;
constexpr int kTiles = kRowTiles * kColumnTiles;
constexpr int kSlices = (kK + kSlice - 1) / kSlice;
constexpr int kPlaneBytes = kTile * kSlice * 2;
constexpr int kOperandBytes = 2 * kPlaneBytes;  // high plane, then low plane
constexpr int kStageBytes = 2 * kOperandBytes;
constexpr int kShared = STAGES * kStageBytes + 128;
constexpr int kConsumers = 256;
constexpr int kThreads = kConsumers + 128;

// Workspace: packed a, packed b, exponents of the rows of a, exponents and maxima of the columns of b.
constexpr size_t kPackedA = static_cast<size_t>(kRowTiles) * kSlices * kOperandBytes;
constexpr size_t kPackedB = static_cast<size_t>(kColumnTiles) * kSlices * kOperandBytes;
constexpr size_t kExponentsA = static_cast<size_t>(kRowTiles) * kTile * 4;
constexpr size_t kExponentsB = static_cast<size_t>(kColumnTiles) * kTile * 4;

// A packed plane is made of 8 x 8 blocks (8 rows of 16 bytes): [k / 8][row / 8][row % 8][k % 8].
__device__ size_t packed_offset(int64_t row, int64_t k, int plane) {
  const size_t tile = (row / kTile * kSlices + k / kSlice) * 2 + plane;
  return tile * kPlaneBytes + (k % kSlice / 8 * (kTile / 8) + row % kTile / 8) * 128 + row % 8 * 16;
}

// The power of two that brings `largest` to [2^14, 2^15).
__device__ int scale_exponent(float largest) {
  return largest > 0.0f && largest <= 3.402823466e38f ? 14 - ilogbf(largest) : 0;
}

__device__ void split(float value, int exponent, __half& high, __half& low) {
  const float scaled = ldexpf(value, exponent);
  high = __float2half_rn(scaled);
  low = __float2half_rn(scaled - __half2float(high));
}

struct __align__(16) Eight {
  __half values[8];
};

// A warp packs 8 rows; the block first finds the largest value of each of its 8 rows.
__global__ void __launch_bounds__(256) pack_a(const float* __restrict__ a, unsigned char* __restrict__ packed,
                                              int* __restrict__ exponents) {
  __shared__ int exponent[8];
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int64_t row0 = static_cast<int64_t>(blockIdx.x) * 8;
  float largest = 0.0f;
  if (row0 + warp < kM) {
    for (int64_t k = lane; k < kK; k += 32) largest = fmaxf(largest, fabsf(a[(row0 + warp) * kK + k]));
  }
  for (int offset = 16; offset > 0; offset /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
  if (lane == 0) {
    exponent[warp] = scale_exponent(largest);
    exponents[row0 + warp] = exponent[warp];
  }
  __syncthreads();
  const int64_t row = row0 + lane % 8;
  for (int64_t k = (warp * 4 + lane / 8) * 8; k < kSlices * kSlice; k += 8 * 4 * 8) {
    Eight high, low;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const bool inside = row < kM && k + i < kK;
      split(inside ? a[row * kK + k + i] : 0.0f, exponent[lane % 8], high.values[i], low.values[i]);
    }
    *reinterpret_cast<Eight*>(packed + packed_offset(row, k, 0)) = high;
    *reinterpret_cast<Eight*>(packed + packed_offset(row, k, 1)) = low;
  }
}

// 32 columns per block, all of k.
__global__ void __launch_bounds__(1024) column_exponents(const float* __restrict__ b, int* __restrict__ exponents) {
  __shared__ float partial[32][33];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * 32 + lane;
  float largest = 0.0f;
  if (column < kColumns) {
#pragma unroll 8
    for (int64_t k = warp; k < kK; k += 32) largest = fmaxf(largest, fabsf(b[k * kColumns + column]));
  }
  partial[warp][lane] = largest;
  __syncthreads();
  largest = partial[lane][warp];
  for (int offset = 16; offset > 0; offset /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
  if (lane == 0) exponents[blockIdx.x * 32 + warp] = scale_exponent(largest);
}

// A thread packs 8 consecutive k of one column.
__global__ void __launch_bounds__(256) pack_b(const float* __restrict__ b, const int* __restrict__ exponents,
                                              unsigned char* __restrict__ packed) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * 32 + threadIdx.x % 32;
  const int64_t k = (static_cast<int64_t>(blockIdx.y) * 8 + threadIdx.x / 32) * 8;
  if (k >= kSlices * kSlice) return;
  const int exponent = exponents[column];
  Eight high, low;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const bool inside = column < kColumns && k + i < kK;
    split(inside ? b[(k + i) * kColumns + column] : 0.0f, exponent, high.values[i], low.values[i]);
  }
  *reinterpret_cast<Eight*>(packed + packed_offset(column, k, 0)) = high;
  *reinterpret_cast<Eight*>(packed + packed_offset(column, k, 1)) = low;
}

__device__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ void barrier_wait(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(barrier), "r"(parity)
      : "memory");
}

__device__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ void copy_in(uint32_t destination, const void* source, int bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(destination),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}

// Describes 8 x 8 blocks that follow each other: neighbours along the rows after 128 bytes, along k after a column of
// kTile / 8 blocks.
__device__ uint64_t describe(uint32_t address) {
  constexpr uint64_t kNextK = kTile / 8 * 128;
  return (address >> 4 & 0x3fff) | (kNextK >> 4) << 16 | static_cast<uint64_t>(128 >> 4) << 32;
}

// d = a b (+ d): 64 rows, 128 columns, 16 k.
__device__ __forceinline__ void multiply(float (&d)[64], uint64_t a, uint64_t b, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7,"
      "%8, %9, %10, %11, %12, %13, %14, %15,"
      "%16, %17, %18, %19, %20, %21, %22, %23,"
      "%24, %25, %26, %27, %28, %29, %30, %31,"
      "%32, %33, %34, %35, %36, %37, %38, %39,"
      "%40, %41, %42, %43, %44, %45, %46, %47,"
      "%48, %49, %50, %51, %52, %53, %54, %55,"
      "%56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, p, 1, 1, 0, 0;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}

struct TilePlace {
  int row;
  int column;
};

// GROUP row tiles before the next column tile: blocks that run together share operands in L2.
__device__ TilePlace place_of(int tile) {
  constexpr int kPerGroup = GROUP * kColumnTiles;
  const int first = tile / kPerGroup * GROUP;
  const int height = kRowTiles - first < GROUP ? kRowTiles - first : GROUP;
  return {first + tile % kPerGroup % height, tile % kPerGroup / height};
}

__global__ void __launch_bounds__(kThreads, 1)
    matmul_split(const unsigned char* __restrict__ packed_a, const unsigned char* __restrict__ packed_b,
                 const int* __restrict__ exponents_a, const int* __restrict__ exponents_b, float* __restrict__ out) {
  extern __shared__ unsigned char raw[];
  __shared__ __align__(8) uint64_t full[STAGES];
  __shared__ __align__(8) uint64_t empty[STAGES];
  const uint32_t stages = (shared_address(raw) + 127) & ~127u;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full[stage])) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(shared_address(&empty[stage])) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();

  if (threadIdx.x >= kConsumers) {
    if (threadIdx.x == kConsumers) {
      int turn = 0;
      for (int tile = blockIdx.x; tile < kTiles; tile += gridDim.x) {
        const TilePlace place = place_of(tile);
        const unsigned char* a = packed_a + static_cast<size_t>(place.row) * kSlices * kOperandBytes;
        const unsigned char* b = packed_b + static_cast<size_t>(place.column) * kSlices * kOperandBytes;
        for (int slice = 0; slice < kSlices; ++slice, ++turn) {
          const int stage = turn % STAGES;
          const uint32_t barrier = shared_address(&full[stage]);
          const uint32_t base = stages + stage * kStageBytes;
          barrier_wait(shared_address(&empty[stage]), (turn / STAGES & 1) ^ 1);
          asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(kStageBytes)
                       : "memory");
          copy_in(base, a + static_cast<size_t>(slice) * kOperandBytes, kOperandBytes, barrier);
          copy_in(base + kOperandBytes, b + static_cast<size_t>(slice) * kOperandBytes, kOperandBytes, barrier);
        }
      }
    }
    return;
  }

  const int group = threadIdx.x / 128;  // 64 rows of the tile each
  const int warp = threadIdx.x / 32 % 4;
  const int lane = threadIdx.x % 32;
  int turn = 0;
  for (int tile = blockIdx.x; tile < kTiles; tile += gridDim.x) {
    float sums[64] = {};
    for (int slice = 0; slice < kSlices; ++slice, ++turn) {
      const int stage = turn % STAGES;
      float part[64];
      barrier_wait(shared_address(&full[stage]), turn / STAGES & 1);
      const uint32_t a_base = stages + stage * kStageBytes + group * (64 / 8 * 128);
      const uint32_t b_base = stages + stage * kStageBytes + kOperandBytes;
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int product = 0; product < 3; ++product) {  // the small ones first
        const uint32_t a_plane = a_base + (product == 0 ? kPlaneBytes : 0);
        const uint32_t b_plane = b_base + (product == 1 ? kPlaneBytes : 0);
#pragma unroll
        for (int k = 0; k < kSlice / 16; ++k) {
          multiply(part, describe(a_plane + k * 2 * (kTile / 8 * 128)), describe(b_plane + k * 2 * (kTile / 8 * 128)),
                   product + k > 0);
        }
      }
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      if (threadIdx.x % 128 == 0) barrier_arrive(shared_address(&empty[stage]));
#pragma unroll
      for (int i = 0; i < 64; ++i) sums[i] += part[i];
    }
    const TilePlace place = place_of(tile);
    const int64_t row = static_cast<int64_t>(place.row) * kTile + group * 64 + warp * 16 + lane / 4;
    const int upper = exponents_a[row];
    const int lower = exponents_a[row + 8];
#pragma unroll
    for (int n = 0; n < 16; ++n) {
      const int64_t column = static_cast<int64_t>(place.column) * kTile + n * 8 + lane % 4 * 2;
      const int left = exponents_b[column];
      const int right = exponents_b[column + 1];
      if (column >= kColumns) break;
      if (row < kM) {
        *reinterpret_cast<float2*>(out + row * kColumns + column) =
            make_float2(ldexpf(sums[n * 4], -upper - left), ldexpf(sums[n * 4 + 1], -upper - right));
      }
      if (row + 8 < kM) {
        *reinterpret_cast<float2*>(out + (row + 8) * kColumns + column) =
            make_float2(ldexpf(sums[n * 4 + 2], -lower - left), ldexpf(sums[n * 4 + 3], -lower - right));
      }
    }
  }
}

static_assert(kColumns % 2 == 0, "results are written in pairs");

}  // namespace

extern "C" size_t matmul_fp32_workspace() { return kPackedA + kPackedB + kExponentsA + kExponentsB; }

extern "C" int matmul_fp32(const float* a, const float* b, float* out, void* workspace, cudaStream_t stream) {
  unsigned char* packed_a = static_cast<unsigned char*>(workspace);
  unsigned char* packed_b = packed_a + kPackedA;
  int* exponents_a = reinterpret_cast<int*>(packed_b + kPackedB);
  int* exponents_b = exponents_a + kRowTiles * kTile;
  column_exponents<<<kColumnTiles * kTile / 32, 1024, 0, stream>>>(b, exponents_b);
  pack_a<<<kRowTiles * kTile / 8, 256, 0, stream>>>(a, packed_a, exponents_a);
  pack_b<<<dim3(kColumnTiles * kTile / 32, (kSlices * kSlice + 63) / 64), 256, 0, stream>>>(b, exponents_b, packed_b);
  int device = 0;
  int processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  cudaFuncSetAttribute(matmul_split, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  matmul_split<<<processors < kTiles ? processors : kTiles, kThreads, kShared, stream>>>(packed_a, packed_b, exponents_a,
                                                                                        exponents_b, out);
  return cudaGetLastError();
}
