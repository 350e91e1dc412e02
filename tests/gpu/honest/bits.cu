// row: H  expect: correct  problem: relu_small
// Works on the bits, as integers of 128 bits.
#include "contract.h"

static __device__ unsigned cut(unsigned bits) { return bits & ~static_cast<unsigned>(static_cast<int>(bits) >> 31); }
static __global__ void cut_off(const uint4* x, uint4* out) {
  const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
  if (i < N / 4) out[i] = make_uint4(cut(x[i].x), cut(x[i].y), cut(x[i].z), cut(x[i].w));
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  cut_off<<<(N / 4 + 255) / 256, 256, 0, stream>>>(reinterpret_cast<const uint4*>(x), reinterpret_cast<uint4*>(out));
  return cudaGetLastError();
}
