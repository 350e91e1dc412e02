// row: H  expect: correct  problem: half_product
// The instruction of a warp, with operands straight from memory.
#include "contract.h"

static __device__ unsigned pair(const __half* at) { return *reinterpret_cast<const unsigned*>(at); }
static __global__ void multiply(const __half* x, const __half* y, __half* out) {
  const int lane = threadIdx.x % 32, group = lane / 4, part = lane % 4;
  const int64_t row = blockIdx.y * int64_t{16} + group, column = blockIdx.x * int64_t{8} + group;
  float d[4] = {};
  for (int64_t k = part * 2; k < x_dim1; k += 16) {
    const unsigned a0 = pair(x + row * x_dim1 + k), a1 = pair(x + (row + 8) * x_dim1 + k);
    const unsigned a2 = pair(x + row * x_dim1 + k + 8), a3 = pair(x + (row + 8) * x_dim1 + k + 8);
    const unsigned b0 = pair(y + column * y_dim1 + k), b1 = pair(y + column * y_dim1 + k + 8);
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
  __half* to = out + row * y_dim0 + blockIdx.x * 8 + part * 2;
  *reinterpret_cast<__half2*>(to) = __floats2half2_rn(d[0], d[1]);
  *reinterpret_cast<__half2*>(to + 8 * y_dim0) = __floats2half2_rn(d[2], d[3]);
}

extern "C" int half_product(const __half* x, const __half* y, __half* out, void* workspace, cudaStream_t stream) {
  multiply<<<dim3(y_dim0 / 8, x_dim0 / 16), 32, 0, stream>>>(x, y, out);
  return cudaGetLastError();
}
