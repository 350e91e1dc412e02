// row: H  expect: correct  problem: relu_small
// Blocks of 96 threads, 7 elements each: nothing divides evenly.
#include "contract.h"

static __global__ void cut_off(const float* x, float* out) {
  const int64_t begin = blockIdx.x * int64_t{96 * 7} + threadIdx.x;
  for (int e = 0; e < 7; ++e) {
    const int64_t i = begin + e * 96;
    if (i < N) out[i] = fmaxf(x[i], 0.0f);
  }
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  cut_off<<<(N + 671) / 672, 96, 0, stream>>>(x, out);
  return cudaGetLastError();
}
