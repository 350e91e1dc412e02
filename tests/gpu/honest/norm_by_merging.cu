// row: H  expect: correct  problem: row_norm
// Counts, means and squares of parts are merged by shuffles.
#include "contract.h"

struct Moments {
  float count, mean, squares;
};
static __device__ Moments merged(Moments a, Moments b) {
  const float count = a.count + b.count, away = b.mean - a.mean;
  if (count == 0) return a;
  return {count, a.mean + away * b.count / count, a.squares + b.squares + away * away * a.count * b.count / count};
}
static __global__ void normalise(const float* x, const float* weight, const float* bias, float* out) {
  const int64_t begin = (blockIdx.x * int64_t{4} + threadIdx.x / 32) * width;
  const int lane = threadIdx.x % 32;
  Moments seen{0, 0, 0};
  for (int i = lane; i < width; i += 32) seen = merged(seen, {1, x[begin + i], 0});
  for (int offset = 16; offset > 0; offset /= 2) {
    seen = merged(seen, {__shfl_xor_sync(0xffffffffu, seen.count, offset), __shfl_xor_sync(0xffffffffu, seen.mean, offset),
                         __shfl_xor_sync(0xffffffffu, seen.squares, offset)});
  }
  const float mean = __shfl_sync(0xffffffffu, seen.mean, 0), squares = __shfl_sync(0xffffffffu, seen.squares, 0);
  const float factor = 1 / sqrtf(squares / width + 1e-5f);
  for (int i = lane; i < width; i += 32) out[begin + i] = (x[begin + i] - mean) * factor * weight[i] + bias[i];
}

extern "C" int row_norm(const float* x, const float* weight, const float* bias, float* out, void* workspace,
                        cudaStream_t stream) {
  static_assert(x_dim0 % 4 == 0);
  normalise<<<x_dim0 / 4, 128, 0, stream>>>(x, weight, bias, out);
  return cudaGetLastError();
}
