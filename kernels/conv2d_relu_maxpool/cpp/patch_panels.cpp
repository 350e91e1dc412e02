// Patches of a few rows of the convolution packed into a panel, padding as zeros; a matrix tile runs over the panel.
#include "contract.h"

#include <cstring>

// tune: PIXELS = 4, 8, 12
// tune: VECTORS = 1, 2, 3
// tune: BAND = 5, 9, 14
// tune-if: PIXELS * VECTORS <= 28
#ifndef BAND
#define BAND 9
#endif
#ifndef PIXELS
#define PIXELS 8
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

static constexpr int64_t tiles = (columns + PIXELS - 1) / PIXELS, pitch = tiles * PIXELS;
static constexpr int64_t sets = (groups + VECTORS - 1) / VECTORS, panel_size = tiles * taps * PIXELS;

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

// One row of the convolution as (tile, tap, pixel).
static void pack_row(const float* image, float* panel, int64_t row) {
    for (int64_t tile = 0; tile < tiles; ++tile)
        for (int64_t c = 0; c < in_channels; ++c)
            for (int64_t i = 0; i < kernel_size; ++i) {
                const int64_t y = row * stride + i - padding;
                const float* line = image + (c * x_dim2 + y) * x_dim3;
                float* to = panel + (tile * taps + (c * kernel_size + i) * kernel_size) * PIXELS;
                for (int64_t j = 0; j < kernel_size; ++j)
                    for (int64_t p = 0; p < PIXELS; ++p) {
                        const int64_t z = (tile * PIXELS + p) * stride + j - padding;
                        to[j * PIXELS + p] = y >= 0 && y < x_dim2 && z >= 0 && z < x_dim3 ? line[z] : 0;
                    }
            }
}

static void multiply_tile(const float* panel, const Vector* const* weight, Vector* const* to) {
    Vector sums[PIXELS][VECTORS] = {};
    for (int64_t tap = 0; tap < taps; ++tap)
#pragma GCC unroll 16
        for (int v = 0; v < VECTORS; ++v) {
            const Vector w = weight[v][tap];
#pragma GCC unroll 16
            for (int p = 0; p < PIXELS; ++p) sums[p][v] += panel[tap * PIXELS + p] * w;
        }
    // Unrolled too: an index known only at run time would keep the sums out of registers.
#pragma GCC unroll 16
    for (int v = 0; v < VECTORS; ++v)
#pragma GCC unroll 16
        for (int p = 0; p < PIXELS; ++p) to[v][p] = sums[p][v];
}

static void multiply_row(const float* panel, const Vector* packed, Vector* ring, int64_t slot) {
    for (int64_t set = 0; set < sets; ++set)
        for (int64_t tile = 0; tile < tiles; ++tile) {
            const Vector* weight[VECTORS];
            Vector* to[VECTORS];
            for (int v = 0; v < VECTORS; ++v) {
                const int64_t group = set * VECTORS + v < groups ? set * VECTORS + v : groups - 1;
                weight[v] = packed + group * taps;
                to[v] = ring + (group * pool_size + slot) * pitch + tile * PIXELS;
            }
            multiply_tile(panel + tile * taps * PIXELS, weight, to);
        }
}

extern "C" int conv2d_relu_maxpool(const float* x, const float* conv_weight, const float* conv_bias, float* out,
                                   void* workspace) {
    Vector* packed = static_cast<Vector*>(workspace);
#pragma omp parallel
    {
        pack_weights(conv_weight, reinterpret_cast<float*>(packed));
        alignas(64) float panel[panel_size];
        alignas(64) Vector ring[groups * pool_size * pitch];
        // BAND pooled rows at a time; the last row of a band's convolution is made again for the next band.
#pragma omp for collapse(2) schedule(dynamic, 1)
        for (int64_t sample = 0; sample < samples; ++sample)
            for (int64_t band = 0; band < out_dim2; band += BAND) {
                const float* image = x + sample * in_channels * x_dim2 * x_dim3;
                int64_t made = band * pool_stride;
                for (int64_t pooled = band; pooled < out_dim2 && pooled < band + BAND; ++pooled) {
                    for (; made < pooled * pool_stride + pool_size; ++made) {
                        pack_row(image, panel, made);
                        multiply_row(panel, packed, ring, made % pool_size);
                    }
                    for (int64_t group = 0; group < groups; ++group)
                        pool_row(ring + group * pool_size * pitch, pitch, pooled * pool_stride,
                                 load_bias(conv_bias, group), group,
                                 out + (sample * out_channels * out_dim2 + pooled) * out_dim3);
                }
            }
    }
    return 0;
}
