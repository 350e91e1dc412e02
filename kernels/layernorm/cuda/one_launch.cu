// One cooperative launch: every block walks its share of all rows for the moments, a single grid barrier, then the
// same share backwards to write, so each block begins with what it read last. Weight and bias are read once per
// block's columns and kept for all rows.
//
// tune: THREADS = 256, 512, 1024
// tune: BLOCKS_PER_SM = 1, 2, 4
// tune-if: THREADS * BLOCKS_PER_SM <= 2048
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include "contract.h"

#ifndef THREADS
#define THREADS 512
#endif
#ifndef BLOCKS_PER_SM
#define BLOCKS_PER_SM 2
#endif

namespace {

namespace cg = cooperative_groups;

constexpr int64_t kColumns = norm_weight_numel;
constexpr int kRows = x_numel / kColumns;
static_assert(kColumns % 4 == 0, "rows are read as float4");
static_assert(kRows <= 32, "each thread keeps moments of every row");
constexpr int64_t kVectors = kColumns / 4;
constexpr float kEpsilon = static_cast<float>(eps);
constexpr int kWarps = THREADS / 32;

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

__global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    layernorm_grid(const float4* __restrict__ x, const float4* __restrict__ weight, const float4* __restrict__ bias,
                   Moments* __restrict__ moments, float4* __restrict__ out) {
  __shared__ Moments partial[kRows][kWarps];
  __shared__ float2 settled[kRows];
  const cg::grid_group grid = cg::this_grid();
  const int64_t stride = static_cast<int64_t>(gridDim.x) * THREADS;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;

  // Rows in the outer loop keep one set of moments live; four loads are in flight per thread.
  for (int row = 0; row < kRows; ++row) {
    Moments mine = {0.0f, 0.0f, 0.0f};
    for (int64_t column = first; column < kVectors; column += 4 * stride) {
      float4 v[4];
      int seen = 0;
#pragma unroll
      for (int u = 0; u < 4; ++u) {
        if (column + u * stride < kVectors) {
          v[u] = x[row * kVectors + column + u * stride];
          ++seen;
        }
      }
      const float pivot = v[0].x;
      float sum = 0.0f;
#pragma unroll
      for (int u = 0; u < 4; ++u) {
        if (u < seen) sum += ((v[u].x - pivot) + (v[u].y - pivot)) + ((v[u].z - pivot) + (v[u].w - pivot));
      }
      const float mean = sum / (4 * seen) + pivot;
      float squares = 0.0f;
#pragma unroll
      for (int u = 0; u < 4; ++u) {
        if (u >= seen) continue;
        const float a = v[u].x - mean, b = v[u].y - mean, c = v[u].z - mean, d = v[u].w - mean;
        squares += (a * a + b * b) + (c * c + d * d);
      }
      mine = merge(mine, {4.0f * seen, mean, squares});
    }
    mine = warp_merge(mine);
    if (threadIdx.x % 32 == 0) partial[row][threadIdx.x / 32] = mine;
  }
  __syncthreads();
  for (int row = threadIdx.x / 32; row < kRows; row += kWarps) {
    Moments mine = {0.0f, 0.0f, 0.0f};
    if (threadIdx.x % 32 < kWarps) mine = partial[row][threadIdx.x % 32];
    mine = warp_merge(mine);
    if (threadIdx.x % 32 == 0) moments[row * gridDim.x + blockIdx.x] = mine;
  }
  grid.sync();
  for (int row = threadIdx.x / 32; row < kRows; row += kWarps) {
    Moments mine = {0.0f, 0.0f, 0.0f};
    for (int block = threadIdx.x % 32; block < gridDim.x; block += 32) {
      const float* each = reinterpret_cast<const float*>(moments + row * gridDim.x + block);
      mine = merge(mine, {__ldcg(each), __ldcg(each + 1), __ldcg(each + 2)});  // others wrote it: not from L1
    }
    mine = warp_merge(mine);
    if (threadIdx.x % 32 == 0) settled[row] = make_float2(mine.mean, rsqrtf(mine.squares / kColumns + kEpsilon));
  }
  __syncthreads();
  for (int64_t column = first; column < kVectors; column += stride) {
    const float4 w = __ldcs(weight + column);
    const float4 b = __ldcs(bias + column);
#pragma unroll 4
    for (int row = kRows - 1; row >= 0; --row) {  // the last rows were read last
      float4 v = __ldcs(x + row * kVectors + column);
      const float2 all = settled[row];
      v.x = (v.x - all.x) * all.y * w.x + b.x;
      v.y = (v.y - all.x) * all.y * w.y + b.y;
      v.z = (v.z - all.x) * all.y * w.z + b.z;
      v.w = (v.w - all.x) * all.y * w.w + b.w;
      __stcs(out + row * kVectors + column, v);
    }
  }
}

int blocks_of_device() {
  int device = 0;
  int processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  return processors * BLOCKS_PER_SM;
}

}  // namespace

extern "C" size_t layernorm_workspace() {
  return sizeof(Moments) * kRows * blocks_of_device();
}

extern "C" int layernorm(const float* x, const float* norm_weight, const float* norm_bias, float* out, void* workspace,
                         cudaStream_t stream) {
  const float4* x4 = reinterpret_cast<const float4*>(x);
  const float4* weight = reinterpret_cast<const float4*>(norm_weight);
  const float4* bias = reinterpret_cast<const float4*>(norm_bias);
  Moments* moments = static_cast<Moments*>(workspace);
  float4* result = reinterpret_cast<float4*>(out);
  void* arguments[] = {&x4, &weight, &bias, &moments, &result};
  cudaLaunchCooperativeKernel(layernorm_grid, dim3(blocks_of_device()), dim3(THREADS), arguments, 0, stream);
  return cudaGetLastError();
}
