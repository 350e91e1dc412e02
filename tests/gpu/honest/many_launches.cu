// row: H  expect: correct  problem: relu_small
// Sixteen kernels in one call, each for its rows.
#include "contract.h"

static __global__ void cut_off(const float* x, float* out, int64_t count) {
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i < count) out[i] = fmaxf(x[i], 0.0f);
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  constexpr int64_t kEach = (N + 15) / 16;
  for (int64_t begin = 0; begin < N; begin += kEach) {
    const int64_t count = N - begin < kEach ? N - begin : kEach;
    cut_off<<<(count + 255) / 256, 256, 0, stream>>>(x + begin, out + begin, count);
  }
  return cudaGetLastError();
}
