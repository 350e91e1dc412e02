// The whole chip takes one row at a time and keeps it: each block holds its piece of the row in registers while the
// copy engine already brings the next row's piece into shared memory. A grid barrier per row settles mean and
// deviation. x is read from device memory once; weight and bias come from L2 after the first row, where x and the
// results are asked to give way to them (HINTS = 1).
// Needs compute capability 9.0 and a cooperative launch.
//
// tune: THREADS = 512, 1024
// tune: KEEP_WEIGHT = 0, 1
// tune: HINTS = 0, 1
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include "contract.h"

#ifndef THREADS
#define THREADS 1024
#endif
#ifndef KEEP_WEIGHT
#define KEEP_WEIGHT 1
#endif
#ifndef HINTS
#define HINTS 1
#endif

namespace {

namespace cg = cooperative_groups;

constexpr int64_t kColumns = norm_weight_numel;
constexpr int kRows = x_numel / kColumns;
static_assert(kColumns % 4 == 0, "rows are read as float4");
constexpr int64_t kVectors = kColumns / 4;
constexpr float kEpsilon = static_cast<float>(eps);
constexpr int kWarps = THREADS / 32;
constexpr int kBlocks = 132;  // one to a multiprocessor of the largest part; the launch fails on a smaller one
constexpr int kPiece = (kVectors + kBlocks - 1) / kBlocks;  // float4 of a row in a block
constexpr int kPerThread = (kPiece + THREADS - 1) / THREADS;
static_assert(kPerThread <= 16384 / THREADS, "a piece must fit the registers of its block");
constexpr int kPieceBytes = kPiece * 16;
// What shared memory is left holds the first part of the block's piece of `weight`.
constexpr int kSharedBytes = 225 * 1024;
constexpr int kWeightRounds = KEEP_WEIGHT ? (kSharedBytes - kPieceBytes) / 16 / THREADS : 0;  // float4 per thread
constexpr int kUsedBytes = kPieceBytes + kWeightRounds * THREADS * 16;
static_assert(kUsedBytes <= kSharedBytes, "the next piece must fit shared memory");

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

__device__ void load_piece(uint32_t destination, const float4* source, uint32_t bytes, uint32_t barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
  uint64_t policy;
  if (HINTS) {
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  } else {
    asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  }
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(destination),
      "l"(source), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

// What every row needs again.
__device__ float4 load_lasting(const float4* from, uint64_t policy) {
  if (!HINTS) return *from;
  float4 v;
  asm("ld.global.nc.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
      : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
      : "l"(from), "l"(policy));
  return v;
}

__global__ void __launch_bounds__(THREADS, 1)
    layernorm_resident(const float4* __restrict__ x, const float4* __restrict__ weight, const float4* __restrict__ bias,
                       Moments* __restrict__ moments, float4* __restrict__ out) {
  extern __shared__ __align__(128) float4 next_piece[];
  float4* kept_weight = next_piece + kPiece;
  __shared__ __align__(8) uint64_t arrived;
  __shared__ Moments partial[kWarps];
  __shared__ float2 settled;
  const cg::grid_group grid = cg::this_grid();
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kPiece;
  const int64_t left = kVectors - begin;
  const int size = left < 0 ? 0 : left < kPiece ? static_cast<int>(left) : kPiece;
  const uint32_t barrier = shared_address(&arrived);
  uint64_t lasting;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(lasting));

  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    if (size > 0) load_piece(shared_address(next_piece), x + begin, size * 16, barrier);
  }
#pragma unroll
  for (int i = 0; i < kWeightRounds; ++i) {
    const int column = threadIdx.x + i * THREADS;
    if (column < size) kept_weight[column] = weight[begin + column];
  }
  __syncthreads();

  for (int row = 0; row < kRows; ++row) {
    float4 v[kPerThread];
    float sum = 0.0f;
    int seen = 0;
    if (size > 0) barrier_wait(barrier, row & 1);
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int column = threadIdx.x + i * THREADS;
      if (column < size) v[i] = next_piece[column];
      seen += column < size;
    }
    __syncthreads();  // everyone has taken its part out
    if (threadIdx.x == 0 && size > 0 && row + 1 < kRows) {
      load_piece(shared_address(next_piece), x + (row + 1) * kVectors + begin, size * 16, barrier);
    }
    const float pivot = seen > 0 ? v[0].x : 0.0f;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      if (i < seen) sum += ((v[i].x - pivot) + (v[i].y - pivot)) + ((v[i].z - pivot) + (v[i].w - pivot));
    }
    const float mean = seen > 0 ? sum / (4 * seen) + pivot : 0.0f;
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      if (i >= seen) continue;
      const float a = v[i].x - mean, b = v[i].y - mean, c = v[i].z - mean, d = v[i].w - mean;
      squares += (a * a + b * b) + (c * c + d * d);
    }
    Moments mine = warp_merge({4.0f * seen, mean, squares});
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x < 32) {
      mine = {0.0f, 0.0f, 0.0f};
      if (threadIdx.x < kWarps) mine = partial[threadIdx.x];
      mine = warp_merge(mine);
      if (threadIdx.x == 0) moments[row * kBlocks + blockIdx.x] = mine;
    }
    grid.sync();
    if (threadIdx.x < 32) {
      mine = {0.0f, 0.0f, 0.0f};
      for (int block = threadIdx.x; block < kBlocks; block += 32) {
        const float* each = reinterpret_cast<const float*>(moments + row * kBlocks + block);
        mine = merge(mine, {__ldcg(each), __ldcg(each + 1), __ldcg(each + 2)});  // others wrote it: not from L1
      }
      mine = warp_merge(mine);
      if (threadIdx.x == 0) settled = make_float2(mine.mean, rsqrtf(mine.squares / kColumns + kEpsilon));
    }
    __syncthreads();
    const float2 all = settled;
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
      const int column = threadIdx.x + i * THREADS;
      if (column >= size) break;
      const float4 w = i < kWeightRounds ? kept_weight[column] : load_lasting(weight + begin + column, lasting);
      const float4 b = load_lasting(bias + begin + column, lasting);
      v[i].x = (v[i].x - all.x) * all.y * w.x + b.x;
      v[i].y = (v[i].y - all.x) * all.y * w.y + b.y;
      v[i].z = (v[i].z - all.x) * all.y * w.z + b.z;
      v[i].w = (v[i].w - all.x) * all.y * w.w + b.w;
      __stcs(out + row * kVectors + begin + column, v[i]);
    }
  }
}

}  // namespace

extern "C" size_t layernorm_workspace() {
  return sizeof(Moments) * kRows * kBlocks;
}

extern "C" int layernorm(const float* x, const float* norm_weight, const float* norm_bias, float* out, void* workspace,
                         cudaStream_t stream) {
  const float4* x4 = reinterpret_cast<const float4*>(x);
  const float4* weight = reinterpret_cast<const float4*>(norm_weight);
  const float4* bias = reinterpret_cast<const float4*>(norm_bias);
  Moments* moments = static_cast<Moments*>(workspace);
  float4* result = reinterpret_cast<float4*>(out);
  void* arguments[] = {&x4, &weight, &bias, &moments, &result};
  cudaFuncSetAttribute(layernorm_resident, cudaFuncAttributeMaxDynamicSharedMemorySize, kUsedBytes);
  cudaLaunchCooperativeKernel(layernorm_resident, dim3(kBlocks), dim3(THREADS), arguments, kUsedBytes, stream);
  return cudaGetLastError();
}
