// row: H  expect: correct  problem: relu_small
// The operation is a type.
#include "contract.h"

struct CutOff {
  __device__ float operator()(float value) const { return value > 0 ? value : 0; }
};
template <class Operation>
static __global__ void each(const float* x, float* out, Operation operation) {
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i < N) out[i] = operation(x[i]);
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  each<<<(N + 255) / 256, 256, 0, stream>>>(x, out, CutOff{});
  return cudaGetLastError();
}
