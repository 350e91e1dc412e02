// row: H  expect: correct  problem: half_product
// The instruction of a warp group: both operands in shared memory, as groups of 8 rows by 16 bytes.
#include "contract.h"

static __device__ uint64_t descriptor(const void* tile) {
  const uint64_t address = __cvta_generic_to_shared(tile);
  constexpr uint64_t kAlongK = 1024 >> 4, kAlongRows = 128 >> 4;  // from one group of 8 x 16 bytes to the next
  return (address & 0x3ffff) >> 4 | kAlongK << 16 | kAlongRows << 32;
}
// 64 rows of 16 halves: group (k / 8, row / 8), then the row within it.
static __device__ void load(__half* tile, const __half* from, int64_t stride) {
  const int row = threadIdx.x / 2, half = threadIdx.x % 2;
  *reinterpret_cast<uint4*>(tile + half * 512 + row * 8) = *reinterpret_cast<const uint4*>(from + row * stride + half * 8);
}
static __global__ void __launch_bounds__(128) multiply(const __half* x, const __half* y, __half* out) {
  __shared__ alignas(128) __half a[1024], b[1024];
  const int64_t row = blockIdx.y * int64_t{64}, column = blockIdx.x * int64_t{64};
  float d[32] = {};
  for (int64_t k = 0; k < x_dim1; k += 16) {
    __syncthreads();
    load(a, x + row * x_dim1 + k, x_dim1);
    load(b, y + column * y_dim1 + k, y_dim1);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(descriptor(a)), "l"(descriptor(b))
        : "memory");
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int j = 0; j < 8; ++j) {
    for (int h = 0; h < 2; ++h) {
      __half* to = out + (row + warp * 16 + lane / 4 + h * 8) * y_dim0 + column + j * 8 + lane % 4 * 2;
      *reinterpret_cast<__half2*>(to) = __floats2half2_rn(d[j * 4 + h * 2], d[j * 4 + h * 2 + 1]);
    }
  }
}

extern "C" int half_product(const __half* x, const __half* y, __half* out, void* workspace, cudaStream_t stream) {
  multiply<<<dim3(y_dim0 / 64, x_dim0 / 64), 128, 0, stream>>>(x, y, out);
  return cudaGetLastError();
}
