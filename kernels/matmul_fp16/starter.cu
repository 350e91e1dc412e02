// out = a b, one thread per element, 32 x 32 tiles of both operands in shared memory, sums in float32.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "contract.h"

namespace {

constexpr int kTile = 32;
constexpr int64_t kM = a_dim0;
constexpr int64_t kK = a_dim1;
constexpr int64_t kColumns = b_dim1;

__global__ void matmul_kernel(const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ out) {
  __shared__ float a_tile[kTile][kTile];
  __shared__ float b_tile[kTile][kTile + 1];
  const int64_t row = static_cast<int64_t>(blockIdx.y) * kTile + threadIdx.y;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kTile + threadIdx.x;
  float sum = 0.0f;
  for (int64_t k = 0; k < kK; k += kTile) {
    const bool a_inside = row < kM && k + threadIdx.x < kK;
    const bool b_inside = column < kColumns && k + threadIdx.y < kK;
    a_tile[threadIdx.y][threadIdx.x] = a_inside ? __half2float(a[row * kK + k + threadIdx.x]) : 0.0f;
    b_tile[threadIdx.y][threadIdx.x] = b_inside ? __half2float(b[(k + threadIdx.y) * kColumns + column]) : 0.0f;
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += a_tile[threadIdx.y][i] * b_tile[i][threadIdx.x];
    __syncthreads();
  }
  if (row < kM && column < kColumns) out[row * kColumns + column] = __float2half_rn(sum);
}

}  // namespace

extern "C" int matmul_fp16(const __half* a, const __half* b, __half* out, void* workspace, cudaStream_t stream) {
  const dim3 grid((kColumns + kTile - 1) / kTile, (kM + kTile - 1) / kTile);
  matmul_kernel<<<grid, dim3(kTile, kTile), 0, stream>>>(a, b, out);
  return cudaGetLastError();
}
