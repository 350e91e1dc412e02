// row: H  expect: correct  problem: relu_small
// The size of the cluster is an attribute of the kernel.
#include "contract.h"

static __global__ void __cluster_dims__(2, 1, 1) cut_off(const float* x, float* out) {
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i < N) out[i] = fmaxf(x[i], 0.0f);
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  cut_off<<<(N + 511) / 512 * 2, 256, 0, stream>>>(x, out);
  return cudaGetLastError();
}
