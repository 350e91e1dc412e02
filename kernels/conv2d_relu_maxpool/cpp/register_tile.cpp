// Register tile of pixels x channel vectors into a whole unpooled map; pooling is a second phase.
#include "contract.h"

#include <cstring>

// tune: PIXELS = 2, 4, 8
// tune: VECTORS = 1, 2, 3
#ifndef PIXELS
#define PIXELS 4
#endif
#ifndef VECTORS
#define VECTORS 2
#endif

// Sizes of the convolution that pooling then reads.
static constexpr int64_t rows = (x_dim2 + 2 * padding - kernel_size) / stride + 1;
static constexpr int64_t columns = (x_dim3 + 2 * padding - kernel_size) / stride + 1;
static constexpr int64_t taps = in_channels * kernel_size * kernel_size, samples = x_dim0;

typedef float Vector __attribute__((vector_size(64)));
static constexpr int64_t lanes = 16, groups = (out_channels + lanes - 1) / lanes;  // vectors of output channels

// Samples with their border of zeros, wide enough for a whole last tile of pixels.
static constexpr int64_t tiles = (columns + PIXELS - 1) / PIXELS, pitch = tiles * PIXELS;
static constexpr int64_t padded_rows = x_dim2 + 2 * padding;
static constexpr int64_t reach = (pitch - 1) * stride + kernel_size;  // of the last tile
static constexpr int64_t padded_columns = reach > x_dim3 + 2 * padding ? reach : x_dim3 + 2 * padding;
static constexpr int64_t padded_size = in_channels * padded_rows * padded_columns;

static void pad_samples(const float* x, float* padded) {
#pragma omp for collapse(2) schedule(static)
    for (int64_t map = 0; map < samples * in_channels; ++map)
        for (int64_t row = 0; row < padded_rows; ++row) {
            float* to = padded + (map * padded_rows + row) * padded_columns;
            const int64_t from = row - padding;
            std::memset(to, 0, padded_columns * sizeof(float));
            if (from >= 0 && from < x_dim2) std::memcpy(to + padding, x + (map * x_dim2 + from) * x_dim3, x_dim3 * sizeof(float));
        }
}

static constexpr int64_t sets = (groups + VECTORS - 1) / VECTORS;

// Packed weights, padded samples, and the maps as (sample, group, row, column) vectors.
extern "C" size_t conv2d_relu_maxpool_workspace() {
    const int64_t padded_bytes = (samples * padded_size * sizeof(float) + 63) / 64 * 64;
    return (groups * taps + samples * groups * rows * pitch) * sizeof(Vector) + padded_bytes;
}

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

// PIXELS neighbours in a row times VECTORS vectors of channels, in registers over all taps.
static void multiply_tile(const float* in, const Vector* const* weight, Vector* const* to) {
    Vector sums[PIXELS][VECTORS] = {};
    for (int64_t c = 0; c < in_channels; ++c)
        for (int64_t i = 0; i < kernel_size; ++i) {
            const float* line = in + (c * padded_rows + i) * padded_columns;
            const int64_t first = (c * kernel_size + i) * kernel_size;
#pragma GCC unroll 16
            for (int64_t j = 0; j < kernel_size; ++j)
#pragma GCC unroll 16
                for (int v = 0; v < VECTORS; ++v) {
                    const Vector w = weight[v][first + j];
#pragma GCC unroll 16
                    for (int p = 0; p < PIXELS; ++p) sums[p][v] += line[p * stride + j] * w;
                }
        }
    // Unrolled too: an index known only at run time would keep the sums out of registers.
#pragma GCC unroll 16
    for (int v = 0; v < VECTORS; ++v)
#pragma GCC unroll 16
        for (int p = 0; p < PIXELS; ++p) to[v][p] = sums[p][v];
}

static void do_row(const float* padded, const Vector* packed, Vector* maps, int64_t row, int64_t set) {
    for (int64_t tile = 0; tile < tiles; ++tile) {
        const Vector* weight[VECTORS];
        Vector* to[VECTORS];
        for (int v = 0; v < VECTORS; ++v) {
            const int64_t group = set * VECTORS + v < groups ? set * VECTORS + v : groups - 1;
            weight[v] = packed + group * taps;
            to[v] = maps + (group * rows + row) * pitch + tile * PIXELS;
        }
        multiply_tile(padded + row * stride * padded_columns + tile * PIXELS * stride, weight, to);
    }
}

// The three rows of a window lie one after the other in a map, not in a ring: hand them over in ring order.
static void pool_map(const Vector* map, const float* conv_bias, float* out, int64_t group) {
    const Vector bias = load_bias(conv_bias, group);
    Vector ring[pool_size * pitch];
    for (int64_t pooled = 0; pooled < out_dim2; ++pooled) {
        for (int64_t i = 0; i < pool_size; ++i) {
            const int64_t row = pooled * pool_stride + i;
            std::memcpy(ring + row % pool_size * pitch, map + row * pitch, pitch * sizeof(Vector));
        }
        pool_row(ring, pitch, pooled * pool_stride, bias, group, out + pooled * out_dim3);
    }
}

extern "C" int conv2d_relu_maxpool(const float* x, const float* conv_weight, const float* conv_bias, float* out,
                                   void* workspace) {
    Vector* packed = static_cast<Vector*>(workspace);
    Vector* maps = packed + groups * taps;
    float* padded = reinterpret_cast<float*>(maps + samples * groups * rows * pitch);
#pragma omp parallel
    {
        pack_weights(conv_weight, reinterpret_cast<float*>(packed));
        pad_samples(x, padded);
#pragma omp for collapse(3) schedule(dynamic, 8)
        for (int64_t sample = 0; sample < samples; ++sample)
            for (int64_t set = 0; set < sets; ++set)
                for (int64_t row = 0; row < rows; ++row)
                    do_row(padded + sample * padded_size, packed, maps + sample * groups * rows * pitch, row, set);
#pragma omp for collapse(2) schedule(static)
        for (int64_t sample = 0; sample < samples; ++sample)
            for (int64_t group = 0; group < groups; ++group)
                pool_map(maps + (sample * groups + group) * rows * pitch, conv_bias,
                         out + sample * out_channels * out_dim2 * out_dim3, group);
    }
    return 0;
}
