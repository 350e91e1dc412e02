// One block to a multiprocessor holds a whole row: a quarter in registers, the rest in shared memory. x is read once
// and out written once. Every thread finds its own maximum and leaves exponentials behind; one exchange between the
// warps settles the row. Each warp owns its piece of the row and fetches the next row's piece through the copy engine as soon
// as it has written this one, so multiprocessors are at different places and memory is never idle.
// Needs compute capability 9.0.
//
// tune: IN_REGISTERS = 4, 5, 6
#include <cuda_runtime.h>

#include <cmath>

#include "contract.h"

#ifndef IN_REGISTERS
#define IN_REGISTERS 4
#endif

namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr int kRows = x_numel / x_dim1;
static_assert(x_dim1 % (4 * kThreads) == 0, "a row is cut evenly over the threads");
constexpr int kPerThread = x_dim1 / 4 / kThreads;  // float4
constexpr int kKept = IN_REGISTERS < kPerThread ? IN_REGISTERS : kPerThread;
constexpr int kShared4 = kPerThread - kKept;  // float4 of a thread in shared memory
constexpr int kWarpBytes = kShared4 * 32 * 16;
constexpr int kSharedBytes = kWarps * kWarpBytes;
static_assert(kSharedBytes <= 224 * 1024, "what registers do not hold must fit shared memory");

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

__device__ void fetch_piece(uint32_t destination, const float4* source, uint32_t barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(kWarpBytes) : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(destination),
      "l"(source), "r"(kWarpBytes), "r"(barrier)
      : "memory");
}

__device__ float4 exponentials(float4 v, float shift, float& sum) {
  const float4 e = make_float4(expf(v.x - shift), expf(v.y - shift), expf(v.z - shift), expf(v.w - shift));
  sum += (e.x + e.y) + (e.z + e.w);
  return e;
}

__device__ float4 scaled(float4 v, float scale) {
  return make_float4(v.x * scale, v.y * scale, v.z * scale, v.w * scale);
}

__device__ float highest_of(float4 v) { return fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)); }

// A sum of exponentials around a maximum, brought to another maximum; nothing but -inf stays as it is.
__device__ float rescaled(float2 moments, float highest) {
  return moments.x == -INFINITY ? moments.y : moments.y * expf(moments.x - highest);
}

__device__ float2 warp_merge(float2 moments) {
  float highest = moments.x;
  for (int offset = 16; offset > 0; offset /= 2) {
    highest = fmaxf(highest, __shfl_xor_sync(0xffffffffu, highest, offset));
  }
  float sum = rescaled(moments, highest);
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  return make_float2(highest, sum);
}

__global__ void __launch_bounds__(kThreads, 1) softmax_row(const float4* __restrict__ x, float4* __restrict__ out) {
  extern __shared__ __align__(128) float4 pieces[];
  __shared__ __align__(8) uint64_t arrived[kWarps];
  __shared__ float2 partial[2][kWarps];  // by parity of the turn: one block barrier per row is enough
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  float4* piece = pieces + warp * kShared4 * 32;
  const uint32_t barrier = shared_address(&arrived[warp]);
  constexpr int kVectors = x_dim1 / 4;
  const int begin = warp * kPerThread * 32;  // of the warp's piece: first what shared memory holds
  if (lane == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();

  float4 kept[kKept];
  auto fetch = [&](int64_t row) {
    const float4* source = x + row * kVectors + begin;
    if (kShared4 > 0 && lane == 0) fetch_piece(shared_address(piece), source, barrier);
#pragma unroll
    for (int i = 0; i < kKept; ++i) kept[i] = __ldcs(source + (kShared4 + i) * 32 + lane);
  };
  if (blockIdx.x < kRows) fetch(blockIdx.x);
  int turn = 0;
  for (int64_t row = blockIdx.x; row < kRows; row += gridDim.x, ++turn) {
    float highest = -INFINITY;
#pragma unroll
    for (int i = 0; i < kKept; ++i) highest = fmaxf(highest, highest_of(kept[i]));
    if (kShared4 > 0) barrier_wait(barrier, turn & 1);
#pragma unroll 4
    for (int i = 0; i < kShared4; ++i) highest = fmaxf(highest, highest_of(piece[i * 32 + lane]));
    asm volatile("" ::: "memory");  // shared memory is read again: registers could not hold it from above
    const float shift = highest == -INFINITY ? 0.0f : highest;  // a thread may see nothing but -inf
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kKept; ++i) kept[i] = exponentials(kept[i], shift, sum);
#pragma unroll 4
    for (int i = 0; i < kShared4; ++i) piece[i * 32 + lane] = exponentials(piece[i * 32 + lane], shift, sum);

    const float2 mine = warp_merge(make_float2(highest, sum));
    if (lane == 0) partial[turn & 1][warp] = mine;
    __syncthreads();
    const float2 all = warp_merge(partial[turn & 1][lane]);
    const float scale = (highest == -INFINITY ? 1.0f : expf(highest - all.x)) / all.y;
    float4* result = out + row * kVectors + begin;
#pragma unroll 4
    for (int i = 0; i < kShared4; ++i) __stcs(result + i * 32 + lane, scaled(piece[i * 32 + lane], scale));
#pragma unroll
    for (int i = 0; i < kKept; ++i) __stcs(result + (kShared4 + i) * 32 + lane, scaled(kept[i], scale));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the copy engine writes there next
    __syncwarp();
    if (row + gridDim.x < kRows) fetch(row + gridDim.x);
  }
}

static_assert(kWarps == 32, "the moments of the warps are merged by one of them");

}  // namespace

extern "C" int softmax(const float* x, float* out, void* workspace, cudaStream_t stream) {
  int device = 0;
  int processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  cudaFuncSetAttribute(softmax_row, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  softmax_row<<<processors < kRows ? processors : kRows, kThreads, kSharedBytes, stream>>>(
      reinterpret_cast<const float4*>(x), reinterpret_cast<float4*>(out));
  return cudaGetLastError();
}
