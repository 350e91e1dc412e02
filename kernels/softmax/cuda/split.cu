// Rows are cut into parts so that the grid is large whatever the number of rows: one kernel leaves maximum and sum of
// every part in the workspace, a second one settles each row and writes. No clusters; x is read twice.
//
// tune: THREADS = 128, 256, 512
// tune: PARTS = 4, 8, 16
#include <cuda_runtime.h>

#include <cmath>

#include "contract.h"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef PARTS
#define PARTS 8
#endif

namespace {

static_assert(x_dim1 % 4 == 0, "rows are read as float4");
constexpr int kVectors = x_dim1 / 4;
constexpr int kRows = x_numel / x_dim1;
constexpr int kPart = (kVectors + PARTS - 1) / PARTS;  // float4 in a part
constexpr int kPerThread = (kPart + THREADS - 1) / THREADS;
constexpr int kWarps = THREADS / 32;
static_assert(kPerThread <= 32, "a part must fit the registers of its block");

template <class Operation>
__device__ float block_reduce(float value, float identity, Operation operation, float* partial) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value = operation(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x % 32 < kWarps ? partial[threadIdx.x % 32] : identity;
  for (int offset = 16; offset > 0; offset /= 2) {
    value = operation(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  return value;
}

__global__ void __launch_bounds__(THREADS) part_moments(const float4* __restrict__ x, float2* __restrict__ moments) {
  __shared__ float partial[2][kWarps];
  const int64_t row = blockIdx.x / PARTS;
  const int begin = blockIdx.x % PARTS * kPart;
  const int end = begin + kPart < kVectors ? begin + kPart : kVectors;
  float4 v[kPerThread];
  float highest = -INFINITY;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int column = begin + threadIdx.x + i * THREADS;
    v[i] = make_float4(-INFINITY, -INFINITY, -INFINITY, -INFINITY);
    if (column < end) v[i] = x[row * kVectors + column];
  }
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    highest = fmaxf(highest, fmaxf(fmaxf(v[i].x, v[i].y), fmaxf(v[i].z, v[i].w)));
  }
  highest = block_reduce(highest, -INFINITY, [](float a, float b) { return fmaxf(a, b); }, partial[0]);
  const float shift = highest == -INFINITY ? 0.0f : highest;
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    sum += (expf(v[i].x - shift) + expf(v[i].y - shift)) + (expf(v[i].z - shift) + expf(v[i].w - shift));
  }
  sum = block_reduce(sum, 0.0f, [](float a, float b) { return a + b; }, partial[1]);
  if (threadIdx.x == 0) moments[blockIdx.x] = make_float2(highest, sum);
}

__global__ void __launch_bounds__(THREADS)
    write_parts(const float4* __restrict__ x, const float2* __restrict__ moments, float4* __restrict__ out) {
  // Last parts first: they are the ones most likely to be in L2 still.
  const int block = gridDim.x - 1 - blockIdx.x;
  const int64_t row = block / PARTS;
  const int begin = block % PARTS * kPart;
  const int end = begin + kPart < kVectors ? begin + kPart : kVectors;
  float highest = -INFINITY;
  for (int part = 0; part < PARTS; ++part) highest = fmaxf(highest, moments[row * PARTS + part].x);
  float sum = 0.0f;
  for (int part = 0; part < PARTS; ++part) {
    const float2 each = moments[row * PARTS + part];
    sum += each.x == -INFINITY ? each.y : each.y * expf(each.x - highest);
  }
  const float scale = 1.0f / sum;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int column = begin + threadIdx.x + i * THREADS;
    if (column >= end) break;
    float4 v = __ldcs(x + row * kVectors + column);
    v.x = expf(v.x - highest) * scale;
    v.y = expf(v.y - highest) * scale;
    v.z = expf(v.z - highest) * scale;
    v.w = expf(v.w - highest) * scale;
    __stcs(out + row * kVectors + column, v);
  }
}

}  // namespace

extern "C" size_t softmax_workspace() { return sizeof(float2) * kRows * PARTS; }

extern "C" int softmax(const float* x, float* out, void* workspace, cudaStream_t stream) {
  float2* moments = static_cast<float2*>(workspace);
  part_moments<<<kRows * PARTS, THREADS, 0, stream>>>(reinterpret_cast<const float4*>(x), moments);
  write_parts<<<kRows * PARTS, THREADS, 0, stream>>>(reinterpret_cast<const float4*>(x), moments,
                                                     reinterpret_cast<float4*>(out));
  return cudaGetLastError();
}
