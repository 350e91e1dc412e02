// row: H  expect: correct  problem: half_product
// Asynchronous copies of the next tiles while fragments of these are multiplied.
#include <mma.h>

#include "contract.h"

using namespace nvcuda;
constexpr int kSide = 32, kPitch = 40;

static __device__ void fetch(__half* to, const __half* from, int64_t stride) {
  const int row = threadIdx.x / 4, part = threadIdx.x % 4;
  const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(to + row * kPitch + part * 8));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from + row * stride + part * 8) : "memory");
}
static __global__ void multiply(const __half* x, const __half* y, __half* out) {
  __shared__ alignas(32) __half a[2][kSide * kPitch], b[2][kSide * kPitch];
  __shared__ alignas(32) float results[kSide * kSide];
  const int64_t row = blockIdx.y * int64_t{kSide}, column = blockIdx.x * int64_t{kSide};
  const int warp = threadIdx.x / 32, down = warp / 2 * 16, across = warp % 2 * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> right;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  fetch(a[0], x + row * x_dim1, x_dim1);
  fetch(b[0], y + column * y_dim1, y_dim1);
  asm volatile("cp.async.commit_group;" ::: "memory");
  for (int64_t k = 0; k < x_dim1; k += kSide) {
    const int now = k / kSide % 2;
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    if (k + kSide < x_dim1) {
      fetch(a[now ^ 1], x + row * x_dim1 + k + kSide, x_dim1);
      fetch(b[now ^ 1], y + column * y_dim1 + k + kSide, y_dim1);
      asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (int step = 0; step < kSide; step += 16) {
      wmma::load_matrix_sync(left, a[now] + down * kPitch + step, kPitch);
      wmma::load_matrix_sync(right, b[now] + across * kPitch + step, kPitch);
      wmma::mma_sync(sum, left, right, sum);
    }
  }
  wmma::store_matrix_sync(results + down * kSide + across, sum, kSide, wmma::mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < kSide * kSide; i += 128) {
    out[(row + i / kSide) * y_dim0 + column + i % kSide] = __float2half(results[i]);
  }
}

extern "C" int half_product(const __half* x, const __half* y, __half* out, void* workspace, cudaStream_t stream) {
  multiply<<<dim3(y_dim0 / kSide, x_dim0 / kSide), 128, 0, stream>>>(x, y, out);
  return cudaGetLastError();
}
