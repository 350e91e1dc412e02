// row: H  expect: correct  problem: half_product
// Fragments of 16 by 16.
#include <mma.h>

#include "contract.h"

using namespace nvcuda;

static __global__ void multiply(const __half* x, const __half* y, __half* out) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fragment<wmma::accumulator, 16, 16, 16, __half> rounded;
  wmma::fill_fragment(sum, 0.0f);
  for (int64_t k = 0; k < x_dim1; k += 16) {
    wmma::load_matrix_sync(a, x + blockIdx.y * 16 * x_dim1 + k, x_dim1);
    wmma::load_matrix_sync(b, y + blockIdx.x * 16 * y_dim1 + k, y_dim1);
    wmma::mma_sync(sum, a, b, sum);
  }
  for (int i = 0; i < sum.num_elements; ++i) rounded.x[i] = __float2half(sum.x[i]);
  wmma::store_matrix_sync(out + blockIdx.y * 16 * y_dim0 + blockIdx.x * 16, rounded, y_dim0, wmma::mem_row_major);
}

extern "C" int half_product(const __half* x, const __half* y, __half* out, void* workspace, cudaStream_t stream) {
  multiply<<<dim3(y_dim0 / 16, x_dim0 / 16), 32, 0, stream>>>(x, y, out);
  return cudaGetLastError();
}
