// Convolution in float32 on the ordinary multipliers. A block keeps all filters in shared memory for its life and takes
// bands of ROWS rows of the convolution; a thread holds 8 channels of 7 neighbouring pixels in registers. Values of
// three taps come from nine loads, weights of eight channels from two, for 168 multiply-adds.
//
// tune: ROWS = 3, 4, 5
#include <cuda_runtime.h>

#include "contract.h"

#ifndef ROWS
#define ROWS 4
#endif

namespace {

constexpr int kSamples = x_dim0;
constexpr int kChannels = out_channels;
constexpr int kHeight = x_dim2;
constexpr int kWidth = x_dim3;
constexpr int kFilter = kernel_size;
constexpr int kPadding = padding;
constexpr int kStride = stride;
constexpr int kRows = (kHeight + 2 * kPadding - kFilter) / kStride + 1;  // of the convolution
constexpr int kColumns = (kWidth + 2 * kPadding - kFilter) / kStride + 1;
constexpr int kInputs = in_channels;

constexpr int kPixels = 7;    // of a thread, in a row
constexpr int kOutputs = 8;   // channels of a thread
constexpr int kPixelGroups = 8;
constexpr int kChannelGroups = kChannels / kOutputs;
constexpr int kThreadsPerRow = kPixelGroups * kChannelGroups;
constexpr int kThreads = ROWS * kThreadsPerRow;
static_assert(kChannels % (4 * kOutputs) == 0, "a warp is 8 groups of pixels by 4 of channels");
static_assert(kColumns <= kPixels * kPixelGroups, "a row of the convolution is one row of threads");

// Input rows lie in shared memory by phase (column modulo stride): pixels of one tap are neighbours there, and taps
// `stride` apart read the same values one place further.
constexpr int kReach = (kFilter + kStride - 1) / kStride;  // taps of a phase
constexpr int kPhase = kPixels * kPixelGroups + kReach - 1;
constexpr int kInputRow = kInputs * kStride * kPhase;
constexpr int kInputRows = (ROWS - 1) * kStride + kFilter;
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

// Results pass through shared memory (over the band), a few rows at a time, so that they are written in whole lines.
constexpr int kStaged = 2;  // rows of the convolution
constexpr int kPitch = (kStaged * kColumns + 3) / 4 * 4 + 1;  // 8 channels are 8 banks apart: no conflicts
static_assert(kChannels * kPitch <= kInputFloats, "staged results lie over the band");

__global__ void __launch_bounds__(kThreads, 1)
    convolve_bands(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
             float* __restrict__ out) {
  extern __shared__ float4 shared[];
  float* filters = reinterpret_cast<float*>(shared);
  float* band = filters + kFilterFloats;
  constexpr int kBands = (kRows + ROWS - 1) / ROWS;
  const int row = threadIdx.x / kThreadsPerRow;
  const int pixel = threadIdx.x % kPixelGroups * kPixels;
  const int channel = threadIdx.x % kThreadsPerRow / kPixelGroups * kOutputs;
  load_filters(weight, filters);
  for (int item = blockIdx.x; item < kSamples * kBands; item += gridDim.x) {
    const int sample = item / kBands;
    const int first = item % kBands * ROWS;
    __syncthreads();
    load_band(x + static_cast<int64_t>(sample) * kInputs * kHeight * kWidth, first * kStride - kPadding, band);
    __syncthreads();
    float sums[kOutputs][kPixels];
    convolve(band + row * kStride * kInputRow + pixel, filters + channel, sums);
    float* result = out + static_cast<int64_t>(sample) * kChannels * kRows * kColumns + first * kColumns;
#pragma unroll 1
    for (int staged = 0; staged < ROWS; staged += kStaged) {
      __syncthreads();
      if (row >= staged && row < staged + kStaged) {
#pragma unroll
        for (int c = 0; c < kOutputs; ++c) {
#pragma unroll
          for (int p = 0; p < kPixels; ++p) {
            if (pixel + p < kColumns) band[(channel + c) * kPitch + (row - staged) * kColumns + pixel + p] = sums[c][p];
          }
        }
      }
      __syncthreads();
      const int rows = min(min(kStaged, ROWS - staged), kRows - first - staged);
      for (int i = threadIdx.x; i < kChannels * kStaged * kColumns; i += kThreads) {
        const int to = i / (kStaged * kColumns);
        const int place = i % (kStaged * kColumns);
        if (place < rows * kColumns) {
          result[static_cast<int64_t>(to) * kRows * kColumns + staged * kColumns + place] =
              band[to * kPitch + place] + __ldg(bias + to);
        }
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

extern "C" int conv2d(const float* x, const float* conv_weight, const float* conv_bias, float* out, void* workspace,
                      cudaStream_t stream) {
  cudaFuncSetAttribute(convolve_bands, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  convolve_bands<<<processors_of_device(), kThreads, kShared, stream>>>(x, conv_weight, conv_bias, out);
  return cudaGetLastError();
}
