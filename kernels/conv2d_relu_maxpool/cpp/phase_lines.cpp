// Input rows sorted by column modulo stride, so that neighbouring outputs read neighbouring inputs: vectors along the
// row, a register tile of channels x vectors, and pooled rows that leave in their own order, without any transposition.
#include "contract.h"

#include <cstring>

// tune: CHANNELS = 2, 4, 6, 8
// tune: VECTORS = 1, 2, 4
// tune: BAND = 5, 9, 14, 27
// (pooled rows in a work item)
// tune-if: CHANNELS * VECTORS <= 24
#ifndef CHANNELS
#define CHANNELS 6
#endif
#ifndef VECTORS
#define VECTORS 4
#endif
#ifndef BAND
#define BAND 9
#endif

// Sizes of the convolution that pooling then reads.
static constexpr int64_t rows = (x_dim2 + 2 * padding - kernel_size) / stride + 1;
static constexpr int64_t columns = (x_dim3 + 2 * padding - kernel_size) / stride + 1;
static constexpr int64_t taps = in_channels * kernel_size * kernel_size, samples = x_dim0;

typedef float Vector __attribute__((vector_size(64), aligned(4)));
static constexpr int64_t lanes = 16, tile = VECTORS * lanes, tiles = (columns + tile - 1) / tile, pitch = tiles * tile;
static constexpr int64_t groups = (out_channels + CHANNELS - 1) / CHANNELS;

// A padded row as `stride` lines, one after the other: line p holds columns p, p + stride, p + 2 * stride...
static constexpr int64_t line = pitch + (kernel_size - 1) / stride, padded_rows = x_dim2 + 2 * padding;
static constexpr int64_t row_size = stride * line, map_size = padded_rows * row_size;

extern "C" size_t conv2d_relu_maxpool_workspace() {
    return (groups * taps * CHANNELS + samples * in_channels * map_size) * sizeof(float);
}

static void sort_rows(const float* x, float* sorted) {
#pragma omp for collapse(2) schedule(static)
    for (int64_t map = 0; map < samples * in_channels; ++map)
        for (int64_t row = 0; row < padded_rows; ++row) {
            float* to = sorted + map * map_size + row * row_size;
            std::memset(to, 0, row_size * sizeof(float));
            if (row < padding || row >= padding + x_dim2) continue;
            const float* from = x + (map * x_dim2 + row - padding) * x_dim3;
            for (int64_t p = 0; p < stride; ++p)
                for (int64_t q = 0; q < line; ++q) {
                    const int64_t column = q * stride + p - padding;
                    if (column >= 0 && column < x_dim3) to[p * line + q] = from[column];
                }
        }
}

// Weights as (group, tap, channel); channels beyond the last are zeros.
static void pack_weights(const float* weight, float* packed) {
#pragma omp for schedule(static)
    for (int64_t group = 0; group < groups; ++group)
        for (int64_t tap = 0; tap < taps; ++tap)
            for (int64_t c = 0; c < CHANNELS; ++c) {
                const int64_t channel = group * CHANNELS + c;
                packed[(group * taps + tap) * CHANNELS + c] = channel < out_channels ? weight[channel * taps + tap] : 0;
            }
}

// VECTORS vectors of neighbouring outputs for CHANNELS channels, in registers over all taps.
static void multiply_tile(const float* in, const float* weight, float* to, int64_t apart) {
    Vector sums[CHANNELS][VECTORS] = {};
    for (int64_t c = 0; c < in_channels; ++c)
        for (int64_t i = 0; i < kernel_size; ++i) {
            const float* here = in + c * map_size + i * row_size;
#pragma GCC unroll 16
            for (int64_t j = 0; j < kernel_size; ++j) {
                Vector value[VECTORS];
#pragma GCC unroll 16
                for (int v = 0; v < VECTORS; ++v)
                    value[v] = *reinterpret_cast<const Vector*>(here + j % stride * line + j / stride + v * lanes);
#pragma GCC unroll 16
                for (int o = 0; o < CHANNELS; ++o)
#pragma GCC unroll 16
                    for (int v = 0; v < VECTORS; ++v) sums[o][v] += value[v] * weight[o];
                weight += CHANNELS;
            }
        }
    // Unrolled too: an index known only at run time would keep the sums out of registers.
#pragma GCC unroll 16
    for (int o = 0; o < CHANNELS; ++o)
#pragma GCC unroll 16
        for (int v = 0; v < VECTORS; ++v) std::memcpy(to + o * apart + v * lanes, &sums[o][v], sizeof(Vector));
}

// The ring holds the last pool_size rows of one channel; the largest of each column first, on whole vectors.
static void pool_row(const float* ring, float bias, float* result) {
    float column[pitch];
#pragma omp simd
    for (int64_t j = 0; j < pitch; ++j) {
        float largest = ring[j];
        for (int64_t i = 1; i < pool_size; ++i) largest = ring[i * pitch + j] > largest ? ring[i * pitch + j] : largest;
        column[j] = largest;
    }
    for (int64_t j = 0; j < out_dim3; ++j) {
        float largest = -bias;  // so that largest + bias is never below zero
        for (int64_t i = 0; i < pool_size; ++i) {
            const float value = column[j * pool_stride + i];
            largest = value > largest ? value : largest;
        }
        result[j] = largest + bias;
    }
}

static constexpr int64_t bands = (out_dim2 + BAND - 1) / BAND;

// Some pooled rows for one group of channels of one sample.
static void do_band(const float* sorted, const float* weight, const float* bias, float* out, int64_t group,
                    int64_t band) {
    alignas(64) float ring[CHANNELS][pool_size * pitch];
    const int64_t last = (band + 1) * BAND < out_dim2 ? (band + 1) * BAND : out_dim2;
    int64_t made = band * BAND * pool_stride;
    for (int64_t pooled = band * BAND; pooled < last; ++pooled) {
        for (; made < pooled * pool_stride + pool_size; ++made)
            for (int64_t t = 0; t < tiles; ++t)
                multiply_tile(sorted + made * stride * row_size + t * tile, weight,
                              ring[0] + made % pool_size * pitch + t * tile, pool_size * pitch);
        for (int64_t c = 0; c < CHANNELS && group * CHANNELS + c < out_channels; ++c) {
            const int64_t channel = group * CHANNELS + c;
            pool_row(ring[c], bias[channel], out + (channel * out_dim2 + pooled) * out_dim3);
        }
    }
}

extern "C" int conv2d_relu_maxpool(const float* x, const float* conv_weight, const float* conv_bias, float* out,
                                   void* workspace) {
    float* packed = static_cast<float*>(workspace);
    float* sorted = packed + groups * taps * CHANNELS;
#pragma omp parallel
    {
        pack_weights(conv_weight, packed);
        sort_rows(x, sorted);
#pragma omp for collapse(3) schedule(dynamic, 1)
        for (int64_t sample = 0; sample < samples; ++sample)
            for (int64_t group = 0; group < groups; ++group)
                for (int64_t band = 0; band < bands; ++band)
                    do_band(sorted + sample * in_channels * map_size, packed + group * taps * CHANNELS, conv_bias,
                            out + sample * out_channels * out_dim2 * out_dim3, group, band);
    }
    return 0;
}
