// Shifted sums with the next loads asked for in advance; the output is streamed past the cache, which keeps the sample.
#include "contract.h"

#include <cmath>
#include <cstring>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

// tune: CHAINS = 2, 4, 8
// tune: STREAM = 0, 1
// tune: AHEAD = 0, 256, 512, 1024
// (elements to prefetch ahead in the first pass; 0 leaves it to the hardware)
#ifndef STREAM
#define STREAM 1
#endif
#ifndef AHEAD
#define AHEAD 512
#endif
#ifndef CHAINS
#define CHAINS 4
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

typedef double Doubles __attribute__((vector_size(64)));
typedef float Floats __attribute__((vector_size(32)));  // as many lanes as Doubles

static inline Doubles widen(const float* from) {
    Floats v;
    std::memcpy(&v, from, sizeof v);
    return __builtin_convertvector(v, Doubles);
}

// One pass: sums of what differs from the first value. In double neither a large mean nor an odd first value hurts.
static Moments moments_of(const float* in, int64_t count) {
    const double shift = in[0];
    Doubles sums[CHAINS] = {}, squares[CHAINS] = {};
    const int64_t unrolled = count / (CHAINS * 8) * (CHAINS * 8);
    for (int64_t i = 0; i < unrolled; i += CHAINS * 8)
        for (int c = 0; c < CHAINS; ++c) {
            if (AHEAD > 0 && c % 2 == 0) __builtin_prefetch(in + i + c * 8 + AHEAD);  // a line is two vectors; may pass the end
            const Doubles value = widen(in + i + c * 8) - shift;
            sums[c] += value;
            squares[c] += value * value;
        }
    double sum = 0, square = 0;
    for (int c = 0; c < CHAINS; ++c)
        for (int lane = 0; lane < 8; ++lane) {
            sum += sums[c][lane];
            square += squares[c][lane];
        }
    for (int64_t i = unrolled; i < count; ++i) {
        sum += in[i] - shift;
        square += (in[i] - shift) * (in[i] - shift);
    }
    const double m2 = square - sum * sum / count;
    return {static_cast<double>(count), shift + sum / count, m2 > 0 ? m2 : 0};
}

// The last store of an element, never read again by this kernel.
static inline void store_final(float* to, Vector v) {
#if STREAM && defined(__SSE__)
    if (length % 4 == 0) {  // every sample starts on 16 bytes
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

extern "C" int layernorm(const float* x, const float* norm_weight, const float* norm_bias, float* out, void*) {
#pragma omp parallel
    {
#pragma omp for schedule(dynamic, 1)
        for (int64_t sample = 0; sample < samples; ++sample) {
            const float* in = x + sample * length;
            normalise(in, norm_weight, norm_bias, out + sample * length, moments_of(in, length), length);
        }
#if STREAM && defined(__SSE__)
        _mm_sfence();
#endif
    }
    return 0;
}
