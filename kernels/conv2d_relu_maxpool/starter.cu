// Convolution, ReLU and max-pooling in one pass: one thread per pooled element computes its whole window.
#include <cuda_runtime.h>

#include "contract.h"

namespace {

constexpr int kThreads = 128;

__device__ float convolve(const float* __restrict__ x, const float* __restrict__ filter, int row, int column) {
  float sum = 0.0f;
  for (int c = 0; c < in_channels; ++c) {
    for (int i = 0; i < conv_weight_dim2; ++i) {
      const int y = row * stride - padding + i;
      if (y < 0 || y >= x_dim2) continue;
      for (int j = 0; j < conv_weight_dim3; ++j) {
        const int z = column * stride - padding + j;
        if (z < 0 || z >= x_dim3) continue;
        sum += x[(c * x_dim2 + y) * x_dim3 + z] * filter[(c * conv_weight_dim2 + i) * conv_weight_dim3 + j];
      }
    }
  }
  return sum;
}

__global__ void conv_pool_kernel(const float* __restrict__ x, const float* __restrict__ weight,
                                 const float* __restrict__ bias, float* __restrict__ out) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= out_numel) return;
  const int column = index % out_dim3;
  const int row = index / out_dim3 % out_dim2;
  const int channel = index / (out_dim3 * out_dim2) % out_dim1;
  const int64_t sample = index / (out_dim3 * out_dim2 * out_dim1);
  const float* image = x + sample * in_channels * x_dim2 * x_dim3;
  const float* filter = weight + channel * (conv_weight_numel / out_channels);
  float highest = 0.0f;  // ReLU
  for (int i = 0; i < pool_size; ++i) {
    for (int j = 0; j < pool_size; ++j) {
      const float sum = convolve(image, filter, row * pool_stride + i, column * pool_stride + j);
      highest = fmaxf(highest, sum + bias[channel]);
    }
  }
  out[index] = highest;
}

}  // namespace

extern "C" int conv2d_relu_maxpool(const float* x, const float* conv_weight, const float* conv_bias, float* out,
                                   void* workspace, cudaStream_t stream) {
  conv_pool_kernel<<<(out_numel + kThreads - 1) / kThreads, kThreads, 0, stream>>>(x, conv_weight, conv_bias, out);
  return cudaGetLastError();
}
