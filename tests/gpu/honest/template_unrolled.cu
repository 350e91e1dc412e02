// row: H  expect: correct  problem: relu_small
// A template over how much a thread does.
#include "contract.h"

template <int kEach, class Number>
static __global__ void cut_off(const Number* __restrict__ x, Number* __restrict__ out) {
  const int64_t begin = blockIdx.x * int64_t{256} * kEach + threadIdx.x;
  Number kept[kEach];
#pragma unroll
  for (int e = 0; e < kEach; ++e) kept[e] = begin + e * 256 < N ? x[begin + e * 256] : Number(0);
#pragma unroll
  for (int e = 0; e < kEach; ++e) {
    if (begin + e * 256 < N) out[begin + e * 256] = kept[e] > 0 ? kept[e] : Number(0);
  }
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  cut_off<8, float><<<(N + 2047) / 2048, 256, 0, stream>>>(x, out);
  return cudaGetLastError();
}
