// Shares kept by their workers, two samples in flight: a piece of one is normalised while the same piece of the next is
// asked for, and right after it gives its moments, so that memory reads and writes without a pause.
#include "contract.h"

#include <cmath>
#include <cstring>
#include <omp.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

// tune: PIECE = 1024, 2048, 4096, 8192
// (elements that two passes find in the innermost cache)
// tune: AHEAD = 0, 1
// tune: STREAM = 0, 1
#ifndef PIECE
#define PIECE 2048
#endif
#ifndef AHEAD
#define AHEAD 1
#endif
#ifndef STREAM
#define STREAM 1
#endif

static_assert(PIECE % 16 == 0, "a piece is made of whole lines");

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

extern "C" size_t layernorm_workspace() { return samples * pieces * sizeof(Moments); }

static constexpr int64_t chains = 4, step = chains * lanes;

static inline double sum_lanes(const Vector* sums) {
    const Vector v = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    double found = 0;
    for (int i = 0; i < lanes; ++i) found += v[i];
    return found;
}

// Two passes in float over a piece that stays in the innermost cache: shifted by its first value, then by its own mean.
// Each lane adds few values, so float keeps its digits.
static Moments moments_of(const float* in, int64_t count) {
    const int64_t unrolled = count / step * step;
    const float shift = in[0];
    Vector sums[chains] = {}, squares[chains] = {};
    for (int64_t i = 0; i < unrolled; i += step)
        for (int c = 0; c < chains; ++c) sums[c] += load(in + i + c * lanes) - shift;
    double sum = sum_lanes(sums);
    for (int64_t i = unrolled; i < count; ++i) sum += in[i] - shift;
    const double mean = shift + sum / count;
    const float high = static_cast<float>(mean), low = static_cast<float>(mean - high);
    for (int64_t i = 0; i < unrolled; i += step)
        for (int c = 0; c < chains; ++c) {
            const Vector apart = (load(in + i + c * lanes) - high) - low;
            squares[c] += apart * apart;
        }
    double square = sum_lanes(squares);
    for (int64_t i = unrolled; i < count; ++i) square += (in[i] - mean) * (in[i] - mean);
    return {static_cast<double>(count), mean, square};
}

// The last store of an element. Past the cache, it evicts nothing, and a line that is written whole need not be read.
static inline void store_final(float* to, Vector v) {
#if STREAM && defined(__SSE__)
    if (length % 4 == 0) {  // every sample starts on 16 bytes, and so does every piece
        __m128 quarters[4];
        std::memcpy(quarters, &v, sizeof v);
        for (int q = 0; q < 4; ++q) _mm_stream_ps(to + 4 * q, quarters[q]);
        return;
    }
#endif
    std::memcpy(to, &v, sizeof v);
}

static void normalise(const float* in, const float* weight, const float* bias, float* result, const Moments& moments,
                      int64_t count, const float* next) {
    const float scale = static_cast<float>(1 / std::sqrt(moments.m2 / moments.count + eps));
    // The mean in two floats: a single one would be off by more than 1e-4 deviations where the mean is large.
    const float high = static_cast<float>(moments.mean), low = static_cast<float>(moments.mean - high);
    const int64_t whole = count / lanes * lanes;
    for (int64_t i = 0; i < whole; i += lanes) {
        if (AHEAD) __builtin_prefetch(next + i, 0, 3);
        const Vector v = ((load(in + i) - high) - low) * scale * load(weight + i) + load(bias + i);
        store_final(result + i, v);
    }
    for (int64_t i = whole; i < count; ++i) result[i] = ((in[i] - high) - low) * scale * weight[i] + bias[i];
}

static Moments merge_all(const Moments* partial) {
    Moments merged;
    for (int64_t piece = 0; piece < pieces; ++piece) merged.merge(partial[piece]);
    return merged;
}

extern "C" int layernorm(const float* x, const float* norm_weight, const float* norm_bias, float* out, void* workspace) {
    Moments* partial = static_cast<Moments*>(workspace);
#pragma omp parallel
    {
        const int64_t workers = omp_get_num_threads(), worker = omp_get_thread_num();
        const int64_t from = pieces * worker / workers, to = pieces * (worker + 1) / workers;
        for (int64_t piece = from; piece < to; ++piece) partial[piece] = moments_of(x + piece * PIECE, size_of(piece));
        for (int64_t sample = 0; sample < samples; ++sample) {
#pragma omp barrier
            const Moments merged = merge_all(partial + sample * pieces);
            for (int64_t piece = from; piece < to; ++piece) {
                const int64_t first = piece * PIECE;
                const float* in = x + sample * length + first;
                const float* next = sample + 1 < samples ? in + length : in;
                normalise(in, norm_weight + first, norm_bias + first, out + sample * length + first, merged,
                          size_of(piece), next);
                if (sample + 1 < samples) partial[(sample + 1) * pieces + piece] = moments_of(next, size_of(piece));
            }
        }
#if STREAM && defined(__SSE__)
        _mm_sfence();
#endif
    }
    return 0;
}
