// row: H  expect: correct  problem: row_sum
// Parts in the workspace, a second kernel for their sums.
#include "contract.h"

extern "C" size_t row_sum_workspace() { return 16 * out_numel * sizeof(float); }


static __global__ void sum_parts(const float* x, float* parts) {
  const int64_t part = blockIdx.x * int64_t{64} + threadIdx.x;
  if (part >= 16 * x_dim0) return;
  float sum = 0;
  for (int64_t i = 0; i < x_dim1 / 16; ++i) sum += x[part / 16 * x_dim1 + part % 16 + i * 16];
  parts[part] = sum;
}
static __global__ void sum_rows(const float* parts, float* out) {
  const int64_t row = blockIdx.x * int64_t{64} + threadIdx.x;
  if (row >= x_dim0) return;
  float sum = 0;
  for (int part = 0; part < 16; ++part) sum += parts[row * 16 + part];
  out[row] = sum;
}

extern "C" int row_sum(const float* x, float* out, void* workspace, cudaStream_t stream) {
  float* parts = static_cast<float*>(workspace);
  sum_parts<<<(16 * x_dim0 + 63) / 64, 64, 0, stream>>>(x, parts);
  sum_rows<<<(x_dim0 + 63) / 64, 64, 0, stream>>>(parts, out);
  return cudaGetLastError();
}
