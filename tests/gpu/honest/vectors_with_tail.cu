// row: H  expect: correct  problem: relu_small
// Four floats at a time, the rest one by one.
#include "contract.h"

static __global__ void cut_off(const float* x, float* out) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < N / 4) {
    const float4 v = reinterpret_cast<const float4*>(x)[i];
    reinterpret_cast<float4*>(out)[i] = make_float4(fmaxf(v.x, 0), fmaxf(v.y, 0), fmaxf(v.z, 0), fmaxf(v.w, 0));
  }
  if (i < N % 4) out[N - 1 - i] = fmaxf(x[N - 1 - i], 0);
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  cut_off<<<(N / 4 + 255) / 256, 256, 0, stream>>>(x, out);
  return cudaGetLastError();
}
