// Weights re-ordered so that 16 output channels lie side by side: one input value times one vector of weights.
#include "contract.h"

#include <cstring>

// tune: CHAINS = 1, 2, 4
// (independent sums over the taps of one pixel)
#ifndef CHAINS
#define CHAINS 4
#endif

// Sizes of the convolution that pooling then reads.
static constexpr int64_t rows = (x_dim2 + 2 * padding - kernel_size) / stride + 1;
static constexpr int64_t columns = (x_dim3 + 2 * padding - kernel_size) / stride + 1;
static constexpr int64_t taps = in_channels * kernel_size * kernel_size, samples = x_dim0;

typedef float Vector __attribute__((vector_size(64)));
static constexpr int64_t lanes = 16, groups = (out_channels + lanes - 1) / lanes;  // vectors of output channels

extern "C" size_t conv2d_relu_maxpool_workspace() { return groups * taps * sizeof(Vector); }

// Weights as (group, tap, lane): a vector holds one tap of 16 channels; channels beyond the last are zeros.
static void pack_weights(const float* weight, float* packed) {
#pragma omp for collapse(2) schedule(static)
    for (int64_t group = 0; group < groups; ++group)
        for (int64_t tap = 0; tap < taps; ++tap)
            for (int64_t lane = 0; lane < lanes; ++lane) {
                const int64_t channel = group * lanes + lane;
                packed[(group * taps + tap) * lanes + lane] = channel < out_channels ? weight[channel * taps + tap] : 0;
            }
}

// Maximum over a window of vectors, bias, cut off below zero, then out of the lanes into the channels' own maps.
static void pool_row(const Vector* ring, int64_t pitch, int64_t first, Vector bias, int64_t group, float* out) {
    for (int64_t column = 0; column < out_dim3; ++column) {
        Vector largest = -bias;  // so that largest + bias is never below zero
        for (int64_t i = 0; i < pool_size; ++i)
            for (int64_t j = 0; j < pool_size; ++j) {
                const Vector value = ring[(first + i) % pool_size * pitch + column * pool_stride + j];
                largest = value > largest ? value : largest;
            }
        largest += bias;
        for (int64_t lane = 0; lane < lanes; ++lane)
            if (group * lanes + lane < out_channels)
                out[(group * lanes + lane) * out_dim2 * out_dim3 + column] = largest[lane];
    }
}

static Vector load_bias(const float* bias, int64_t group) {
    Vector found = {};
    for (int64_t lane = 0; lane < lanes; ++lane)
        if (group * lanes + lane < out_channels) found[lane] = bias[group * lanes + lane];
    return found;
}

static Vector pixel(const float* image, const Vector* weight, int64_t row, int64_t column) {
    Vector sums[CHAINS] = {};
    const int64_t left = column * stride - padding;
    const int64_t from = left < 0 ? -left : 0, to = left + kernel_size > x_dim3 ? x_dim3 - left : kernel_size;
    for (int64_t c = 0; c < in_channels; ++c)
        for (int64_t i = 0; i < kernel_size; ++i) {
            const int64_t y = row * stride + i - padding;
            if (y < 0 || y >= x_dim2) continue;
            const float* in = image + (c * x_dim2 + y) * x_dim3 + left;
            const Vector* w = weight + (c * kernel_size + i) * kernel_size;
            if (from == 0 && to == kernel_size) {
#pragma GCC unroll 16
                for (int64_t j = 0; j < kernel_size; ++j) sums[j % CHAINS] += in[j] * w[j];
            } else {
                for (int64_t j = from; j < to; ++j) sums[0] += in[j] * w[j];
            }
        }
    for (int c = 1; c < CHAINS; ++c) sums[0] += sums[c];
    return sums[0];
}

extern "C" int conv2d_relu_maxpool(const float* x, const float* conv_weight, const float* conv_bias, float* out,
                                   void* workspace) {
    float* packed = static_cast<float*>(workspace);
#pragma omp parallel
    {
        pack_weights(conv_weight, packed);
#pragma omp for collapse(2) schedule(dynamic, 1)
        for (int64_t sample = 0; sample < samples; ++sample)
            for (int64_t group = 0; group < groups; ++group) {
                const float* image = x + sample * in_channels * x_dim2 * x_dim3;
                const Vector* weight = reinterpret_cast<const Vector*>(packed) + group * taps;
                const Vector bias = load_bias(conv_bias, group);
                Vector ring[pool_size * columns];
                int64_t made = 0;  // rows of the convolution so far; the ring holds the last pool_size
                for (int64_t pooled = 0; pooled < out_dim2; ++pooled) {
                    for (; made < pooled * pool_stride + pool_size; ++made)
                        for (int64_t column = 0; column < columns; ++column)
                            ring[made % pool_size * columns + column] = pixel(image, weight, made, column);
                    pool_row(ring, columns, pooled * pool_stride, bias, group,
                             out + (sample * out_channels * out_dim2 + pooled) * out_dim3);
                }
            }
    }
    return 0;
}
