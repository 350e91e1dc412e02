// Pieces of all samples for all cores; one piece of every sample in a row, so that weight and bias are read once.
// The output can be streamed past the cache.
#include "contract.h"

#include <cmath>
#include <cstring>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

// tune: PIECE = 4096, 16384, 65536
// tune: STREAM = 0, 1
#ifndef STREAM
#define STREAM 0
#endif
#ifndef PIECE
#define PIECE 16384
#endif

typedef float Vector __attribute__((vector_size(64)));
static constexpr int64_t lanes = 16, length = norm_weight_numel, samples = x_dim0;

static inline Vector load(const float* from) {
    Vector v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

// Count, mean and sum of squared deviations; two of them merge exactly, whatever their means (Chan et al. 1979).
struct Moments {
    double count = 0, mean = 0, m2 = 0;

    void merge(const Moments& other) {
        if (other.count == 0) return;
        const double total = count + other.count, apart = other.mean - mean;
        mean += apart * other.count / total;
        m2 += other.m2 + apart * apart * count * other.count / total;
        count = total;
    }
};

static constexpr int64_t pieces = (length + PIECE - 1) / PIECE;

static int64_t size_of(int64_t piece) { return piece + 1 < pieces ? PIECE : length - piece * PIECE; }

extern "C" size_t layernorm_workspace() { return (samples * pieces + samples) * sizeof(Moments); }

// Two plain passes over a piece, which fits in the core's cache.
static Moments moments_of(const float* in, int64_t count) {
    double sum = 0, m2 = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) sum += in[i];
    const double mean = sum / count;
#pragma omp simd reduction(+ : m2)
    for (int64_t i = 0; i < count; ++i) m2 += (in[i] - mean) * (in[i] - mean);
    return {static_cast<double>(count), mean, m2};
}

// The last store of an element, never read again by this kernel.
static inline void store_final(float* to, Vector v) {
#if STREAM && defined(__SSE__)
    if (length % 4 == 0 && PIECE % 4 == 0) {  // every piece starts on 16 bytes
        __m128 quarters[4];
        std::memcpy(quarters, &v, sizeof v);
        for (int q = 0; q < 4; ++q) _mm_stream_ps(to + 4 * q, quarters[q]);
        return;
    }
#endif
    std::memcpy(to, &v, sizeof v);
}

static void normalise(const float* in, const float* weight, const float* bias, float* result, const Moments& moments,
                      int64_t count) {
    const float scale = static_cast<float>(1 / std::sqrt(moments.m2 / moments.count + eps));
    // The mean in two floats: a single one would be off by more than 1e-4 deviations where the mean is large.
    const float high = static_cast<float>(moments.mean), low = static_cast<float>(moments.mean - high);
    const int64_t whole = count / lanes * lanes;
    for (int64_t i = 0; i < whole; i += lanes) {
        const Vector v = ((load(in + i) - high) - low) * scale * load(weight + i) + load(bias + i);
        store_final(result + i, v);
    }
    for (int64_t i = whole; i < count; ++i) result[i] = ((in[i] - high) - low) * scale * weight[i] + bias[i];
}

extern "C" int layernorm(const float* x, const float* norm_weight, const float* norm_bias, float* out, void* workspace) {
    Moments* partial = static_cast<Moments*>(workspace);
    Moments* merged = partial + samples * pieces;
#pragma omp parallel
    {
#pragma omp for collapse(2) schedule(static)
        for (int64_t sample = 0; sample < samples; ++sample)
            for (int64_t piece = 0; piece < pieces; ++piece)
                partial[sample * pieces + piece] = moments_of(x + sample * length + piece * PIECE, size_of(piece));
#pragma omp for schedule(static)
        for (int64_t sample = 0; sample < samples; ++sample) {
            merged[sample] = Moments();
            for (int64_t piece = 0; piece < pieces; ++piece) merged[sample].merge(partial[sample * pieces + piece]);
        }
#pragma omp for collapse(2) schedule(static)
        for (int64_t piece = 0; piece < pieces; ++piece)
            for (int64_t sample = 0; sample < samples; ++sample) {
                const int64_t first = piece * PIECE;
                normalise(x + sample * length + first, norm_weight + first, norm_bias + first,
                          out + sample * length + first, merged[sample], size_of(piece));
            }
#if STREAM && defined(__SSE__)
        _mm_sfence();
#endif
    }
    return 0;
}
