// The plain window sums, but a pooled row is made from the rows it needs and only it is stored; ReLU after the maximum.
#include "contract.h"

// tune: GRAIN = 1, 4, 16
// (pairs of sample and channel that a thread takes at a time)
#ifndef GRAIN
#define GRAIN 4
#endif

// Sizes of the convolution that pooling then reads.
static constexpr int64_t rows = (x_dim2 + 2 * padding - kernel_size) / stride + 1;
static constexpr int64_t columns = (x_dim3 + 2 * padding - kernel_size) / stride + 1;
static constexpr int64_t taps = in_channels * kernel_size * kernel_size, samples = x_dim0;

static float window(const float* image, const float* weight, int64_t row, int64_t column) {
    float sum = 0;
    const int64_t left = column * stride - padding;
    const int64_t from = left < 0 ? -left : 0, to = left + kernel_size > x_dim3 ? x_dim3 - left : kernel_size;
    for (int64_t c = 0; c < in_channels; ++c)
        for (int64_t i = 0; i < kernel_size; ++i) {
            const int64_t y = row * stride + i - padding;
            if (y < 0 || y >= x_dim2) continue;
            const float* in = image + (c * x_dim2 + y) * x_dim3 + left;
            const float* w = weight + (c * kernel_size + i) * kernel_size;
            for (int64_t j = from; j < to; ++j) sum += in[j] * w[j];
        }
    return sum;
}

static void pool_row(const float* ring, int64_t pooled, float bias, float* result) {
    for (int64_t column = 0; column < out_dim3; ++column) {
        float largest = -bias;  // so that largest + bias is never below zero
        for (int64_t i = 0; i < pool_size; ++i) {
            const float* line = ring + (pooled * pool_stride + i) % pool_size * columns + column * pool_stride;
            for (int64_t j = 0; j < pool_size; ++j) largest = line[j] > largest ? line[j] : largest;
        }
        result[column] = largest + bias;
    }
}

extern "C" int conv2d_relu_maxpool(const float* x, const float* conv_weight, const float* conv_bias, float* out, void*) {
#pragma omp parallel for collapse(2) schedule(dynamic, GRAIN)
    for (int64_t sample = 0; sample < samples; ++sample)
        for (int64_t channel = 0; channel < out_channels; ++channel) {
            const float* image = x + sample * in_channels * x_dim2 * x_dim3;
            float ring[pool_size * columns];
            int64_t made = 0;  // rows of the convolution so far; the ring holds the last pool_size
            for (int64_t pooled = 0; pooled < out_dim2; ++pooled) {
                for (; made < pooled * pool_stride + pool_size; ++made)
                    for (int64_t column = 0; column < columns; ++column)
                        ring[made % pool_size * columns + column] =
                            window(image, conv_weight + channel * taps, made, column);
                pool_row(ring, pooled, conv_bias[channel],
                         out + ((sample * out_channels + channel) * out_dim2 + pooled) * out_dim3);
            }
        }
    return 0;
}
