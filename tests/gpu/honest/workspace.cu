// row: H  expect: correct  problem: relu_small
// The workspace holds the answer of the first kernel for the second.
#include "contract.h"

extern "C" size_t relu_small_workspace() { return N * sizeof(float); }


static __global__ void cut_off(const float* x, float* kept) {
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i < N) kept[i] = fmaxf(x[i], 0.0f);
}
static __global__ void move(const float* kept, float* out) {
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i < N) out[i] = kept[i];
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  cut_off<<<(N + 255) / 256, 256, 0, stream>>>(x, static_cast<float*>(workspace));
  move<<<(N + 255) / 256, 256, 0, stream>>>(static_cast<const float*>(workspace), out);
  return cudaGetLastError();
}
