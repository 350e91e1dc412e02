// Convolution, ReLU and pooling in one pass in float32: the feature maps never leave the chip. A block keeps all
// filters in shared memory for its life and takes bands of POOLED pooled rows; it computes the 2 * POOLED + 1 rows of
// the convolution below them (neighbouring bands share one, computed twice), a thread 8 channels of 7 neighbouring
// pixels, and pools out of shared memory.
//
// tune: POOLED = 1, 2
#include <cuda_runtime.h>

#include "contract.h"

#ifndef POOLED
#define POOLED 2
#endif

namespace {

constexpr int kSamples = x_dim0;
constexpr int kChannels = out_channels;
constexpr int kHeight = x_dim2;
constexpr int kWidth = x_dim3;
constexpr int kFilter = kernel_size;
constexpr int kPadding = padding;
constexpr int kStride = stride;
constexpr int kColumns = (kWidth + 2 * kPadding - kFilter) / kStride + 1;
constexpr int kInputs = in_channels;
constexpr int kPoolSize = pool_size;
constexpr int kPoolStride = pool_stride;
constexpr int kBandRows = (POOLED - 1) * kPoolStride + kPoolSize;

constexpr int kPixels = 7;    // of a thread, in a row
constexpr int kOutputs = 8;   // channels of a thread
constexpr int kPixelGroups = 8;
constexpr int kChannelGroups = kChannels / kOutputs;
constexpr int kThreadsPerRow = kPixelGroups * kChannelGroups;
constexpr int kThreads = kBandRows * kThreadsPerRow;
static_assert(kChannels % (4 * kOutputs) == 0, "a warp is 8 groups of pixels by 4 of channels");
static_assert(kColumns <= kPixels * kPixelGroups, "a row of the convolution is one row of threads");

// Input rows lie in shared memory by phase (column modulo stride): pixels of one tap are neighbours there, and taps
// `stride` apart read the same values one place further.
constexpr int kReach = (kFilter + kStride - 1) / kStride;  // taps of a phase
constexpr int kPhase = kPixels * kPixelGroups + kReach - 1;
constexpr int kInputRow = kInputs * kStride * kPhase;
constexpr int kInputRows = (kBandRows - 1) * kStride + kFilter;
constexpr int kTaps = kInputs * kFilter * kFilter;
constexpr int kFilterPitch = kChannels + 4;  // of a tap: spreads the writes of the filters over the banks
constexpr int kFilterFloats = kTaps * kFilterPitch;
constexpr int kInputFloats = kInputRows * kInputRow;
constexpr int kShared = (kFilterFloats + kInputFloats) * 4;
static_assert(kShared <= 226 * 1024, "filters and a band of the input must fit shared memory");

// [filter row][input channel][tap][channel]
__device__ void load_filters(const float* __restrict__ weight, float* filters) {
  for (int i = threadIdx.x; i < kTaps * kChannels; i += kThreads) {
    const int channel = i / kTaps;
    const int tap = i % kTaps;
    const int input = tap / (kFilter * kFilter);
    const int row = tap / kFilter % kFilter;
    filters[((row * kInputs + input) * kFilter + tap % kFilter) * kFilterPitch + channel] = weight[i];
  }
}

// Input rows from `y`, zero outside the image.
__device__ void load_band(const float* __restrict__ sample, int y, float* band) {
  constexpr int kWide = kStride * kPhase;
#pragma unroll 8
  for (int i = threadIdx.x; i < kInputFloats; i += kThreads) {
    const int place = i % kWide;
    const int input = i / kWide % kInputs;
    const int row = y + i / kInputRow;
    const int column = place - kPadding;
    const bool inside = row >= 0 && row < kHeight && column >= 0 && column < kWidth;
    const float value = inside ? __ldg(sample + (input * kHeight + row) * kWidth + column) : 0.0f;
    band[i / kWide * kWide + place % kStride * kPhase + place / kStride] = value;
  }
}

// One row of the convolution for this thread's pixels and channels.
__device__ __forceinline__ void convolve(const float* band, const float* filters, float (&sums)[kOutputs][kPixels]) {
#pragma unroll
  for (int c = 0; c < kOutputs; ++c) {
#pragma unroll
    for (int p = 0; p < kPixels; ++p) sums[c][p] = 0.0f;
  }
#pragma unroll 1
  for (int line = 0; line < kFilter * kInputs; ++line, band += kStride * kPhase, filters += kFilter * kFilterPitch) {
#pragma unroll
    for (int phase = 0; phase < kStride; ++phase) {
      float values[kPixels + kReach - 1];
#pragma unroll
      for (int i = 0; i < kPixels + kReach - 1; ++i) values[i] = band[phase * kPhase + i];
#pragma unroll
      for (int tap = phase; tap < kFilter; tap += kStride) {
        float weights[kOutputs];
#pragma unroll
        for (int c = 0; c < kOutputs; c += 4) {
          *reinterpret_cast<float4*>(weights + c) = *reinterpret_cast<const float4*>(filters + tap * kFilterPitch + c);
        }
#pragma unroll
        for (int c = 0; c < kOutputs; ++c) {
#pragma unroll
          for (int p = 0; p < kPixels; ++p) sums[c][p] = fmaf(weights[c], values[p + tap / kStride], sums[c][p]);
        }
      }
    }
  }
}

// Results pass through shared memory (over the band), part of the channels at a time.
constexpr int kPitch = (kBandRows * kColumns + 3) / 4 * 4 + 1;  // 8 channels are 8 banks apart: no conflicts
constexpr int kStaged = kInputFloats / kPitch / kOutputs * kOutputs;  // channels
static_assert(kStaged > 0, "results of a group of channels must fit over the band");

__global__ void __launch_bounds__(kThreads, 1)
    convolve_and_pool(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
                      float* __restrict__ out) {
  extern __shared__ float4 shared[];
  float* filters = reinterpret_cast<float*>(shared);
  float* band = filters + kFilterFloats;
  constexpr int kBands = (out_dim2 + POOLED - 1) / POOLED;
  constexpr int kPooledColumns = out_dim3;
  const int row = threadIdx.x / kThreadsPerRow;
  const int pixel = threadIdx.x % kPixelGroups * kPixels;
  const int channel = threadIdx.x % kThreadsPerRow / kPixelGroups * kOutputs;
  load_filters(weight, filters);
  for (int item = blockIdx.x; item < kSamples * kBands; item += gridDim.x) {
    const int sample = item / kBands;
    const int first = item % kBands * POOLED;  // pooled row
    __syncthreads();
    load_band(x + static_cast<int64_t>(sample) * kInputs * kHeight * kWidth,
              first * kPoolStride * kStride - kPadding, band);
    __syncthreads();
    float sums[kOutputs][kPixels];
    convolve(band + row * kStride * kInputRow + pixel, filters + channel, sums);
    const int rows = min(POOLED, static_cast<int>(out_dim2) - first);
#pragma unroll 1
    for (int staged = 0; staged < kChannels; staged += kStaged) {
      __syncthreads();
      if (channel >= staged && channel < staged + kStaged) {
#pragma unroll
        for (int c = 0; c < kOutputs; ++c) {
#pragma unroll
          for (int p = 0; p < kPixels; ++p) {
            if (pixel + p < kColumns) band[(channel - staged + c) * kPitch + row * kColumns + pixel + p] = sums[c][p];
          }
        }
      }
      __syncthreads();
      const int channels = min(kStaged, kChannels - staged);
      for (int i = threadIdx.x; i < channels * rows * kPooledColumns; i += kThreads) {
        const int to = i / (rows * kPooledColumns);
        const int y = i / kPooledColumns % rows;
        const float* window = band + to * kPitch + y * kPoolStride * kColumns + i % kPooledColumns * kPoolStride;
        const float shift = __ldg(bias + staged + to);
        float highest = 0.0f;  // ReLU
#pragma unroll
        for (int j = 0; j < kPoolSize * kPoolSize; ++j) {
          const float value = window[j / kPoolSize * kColumns + j % kPoolSize] + shift;
          highest = value > highest || isnan(value) ? value : highest;
        }
        const int64_t map = static_cast<int64_t>(sample) * kChannels + staged + to;
        out[(map * out_dim2 + first) * kPooledColumns + i % (rows * kPooledColumns)] = highest;
      }
    }
  }
}

int processors_of_device() {
  int device = 0;
  int processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  return processors;
}

}  // namespace

extern "C" int conv2d_relu_maxpool(const float* x, const float* conv_weight, const float* conv_bias, float* out,
                                   void* workspace, cudaStream_t stream) {
  cudaFuncSetAttribute(convolve_and_pool, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  convolve_and_pool<<<processors_of_device(), kThreads, kShared, stream>>>(x, conv_weight, conv_bias, out);
  return cudaGetLastError();
}
