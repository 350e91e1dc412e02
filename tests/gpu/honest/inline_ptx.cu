// row: H  expect: correct  problem: relu_small
// The instructions written out.
#include "contract.h"

static __global__ void cut_off(const float* x, float* out) {
  const int64_t i = (blockIdx.x * int64_t{256} + threadIdx.x) * 4;
  if (i >= N) return;
  float a, b, c, d;
  asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "l"(x + i));
  asm("max.f32 %0, %0, 0f00000000;" : "+f"(a));
  asm("max.f32 %0, %0, 0f00000000;" : "+f"(b));
  asm("max.f32 %0, %0, 0f00000000;" : "+f"(c));
  asm("max.f32 %0, %0, 0f00000000;" : "+f"(d));
  asm volatile("st.global.cs.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(out + i), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

extern "C" int relu_small(const float* x, float* out, void* workspace, cudaStream_t stream) {
  static_assert(N % 4 == 0);
  cut_off<<<(N / 4 + 255) / 256, 256, 0, stream>>>(x, out);
  return cudaGetLastError();
}
