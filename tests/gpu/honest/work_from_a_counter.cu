// row: H  expect: correct  problem: relu_small
// Blocks take tiles from a counter in the workspace, which a memset on the stream has cleared.
#include "contract.h"

extern "C" size_t relu_small_workspace() { return sizeof(unsigned int); }


static __global__ void cut_off(const float* x, float* out, unsigned int* counter) {
  __shared__ unsigned int tile;
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) tile = atomicAdd(counter, 1u);
    __syncthreads();
    const int64_t begin = tile * int64_t{1024};
    if (begin >= N) return;
    for (int64_t i = begin + threadIdx.x; i < begin + 1024 && i < N; i += 256) out[i] = fmaxf(x[i], 0.0f);
  }
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  cudaMemsetAsync(workspace, 0, sizeof(unsigned int), stream);
  cut_off<<<264, 256, 0, stream>>>(x, out, static_cast<unsigned int*>(workspace));
  return cudaGetLastError();
}
