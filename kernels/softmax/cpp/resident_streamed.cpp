// Row in cache, several accumulators, output streamed past the cache where that pays.
#include "contract.h"

#include <cmath>
#include <cstring>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

// tune: CHAINS = 1, 2, 4, 8
// tune: STREAM = 0, 1
#ifndef CHAINS
#define CHAINS 4
#endif
#ifndef STREAM
#define STREAM 0
#endif

typedef float Vector __attribute__((vector_size(64)));
typedef int32_t Integers __attribute__((vector_size(64)));
static constexpr int64_t lanes = 16, width = x_dim1, whole = width / lanes * lanes;

static inline Vector load(const float* from) {
    Vector v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

static inline void store(float* to, Vector v) { std::memcpy(to, &v, sizeof v); }

// The last, partial vector of a row; the lanes beyond it hold `fill`.
static inline Vector load_rest(const float* from, float fill) {
    Vector v = Vector{} + fill;
    std::memcpy(&v, from, (width - whole) * sizeof(float));
    return v;
}

static inline Vector larger(Vector one, Vector two) { return one > two ? one : two; }

// e^x for x <= 0, relative error about 1e-7: x = n ln 2 + r, polynomial in r, n into the exponent bits.
static inline Vector exp_nonpositive(Vector x) {
    const Vector bounded = larger(x, Vector{} - 87.0f);
    const Integers n = __builtin_convertvector(bounded * 1.44269504f - 0.5f, Integers);
    const Vector k = __builtin_convertvector(n, Vector);
    const Vector r = bounded - k * 0.693359375f + k * 2.12194440e-4f;
    Vector p = r * 1.98756915e-4f + 1.39819995e-3f;
    p = p * r + 8.33345191e-3f;
    p = p * r + 4.16657959e-2f;
    p = p * r + 1.66666655e-1f;
    p = p * r + 5.00000012e-1f;
    p = p * r * r + r + 1.0f;
    const Integers bits = (n + 127) << 23;
    Vector power;
    std::memcpy(&power, &bits, sizeof power);
    return x > -87.0f ? p * power : Vector{};
}

static inline float largest_lane(Vector v) {
    float found = v[0];
    for (int i = 1; i < lanes; ++i) found = v[i] > found ? v[i] : found;
    return found;
}

static inline double sum_lanes(Vector v) {
    double found = 0;
    for (int i = 0; i < lanes; ++i) found += v[i];
    return found;
}

static constexpr int64_t step = CHAINS * lanes, unrolled = width / step * step;

// The last store of an element, never read again by this kernel.
static inline void store_final(float* to, Vector v) {
#if STREAM && defined(__SSE__)
    if (width % 4 == 0) {  // every row starts on 16 bytes
        __m128 quarters[4];
        std::memcpy(quarters, &v, sizeof v);
        for (int q = 0; q < 4; ++q) _mm_stream_ps(to + 4 * q, quarters[q]);
        return;
    }
#endif
    store(to, v);
}

static float largest_of(const float* in) {
    Vector top[CHAINS];
    for (int c = 0; c < CHAINS; ++c) top[c] = Vector{} - INFINITY;
    for (int64_t i = 0; i < unrolled; i += step)
        for (int c = 0; c < CHAINS; ++c) top[c] = larger(top[c], load(in + i + c * lanes));
    for (int64_t i = unrolled; i < whole; i += lanes) top[0] = larger(top[0], load(in + i));
    if (whole < width) top[0] = larger(top[0], load_rest(in + whole, -INFINITY));
    for (int c = 1; c < CHAINS; ++c) top[0] = larger(top[0], top[c]);
    return largest_lane(top[0]);
}

static void softmax_row(const float* in, float* kept, float* result) {
    const float largest = largest_of(in);
    Vector sums[CHAINS] = {};
    for (int64_t i = 0; i < unrolled; i += step)
        for (int c = 0; c < CHAINS; ++c) {
            const Vector value = exp_nonpositive(load(in + i + c * lanes) - largest);
            store(kept + i + c * lanes, value);
            sums[c] += value;
        }
    for (int64_t i = unrolled; i < whole; i += lanes) {
        const Vector value = exp_nonpositive(load(in + i) - largest);
        store(kept + i, value);
        sums[0] += value;
    }
    if (whole < width) {
        const Vector rest = exp_nonpositive(load_rest(in + whole, -INFINITY) - largest);
        std::memcpy(kept + whole, &rest, (width - whole) * sizeof(float));
        sums[0] += rest;
    }
    double sum = 0;
    for (int c = 0; c < CHAINS; ++c) sum += sum_lanes(sums[c]);
    const float scale = static_cast<float>(1 / sum);
    for (int64_t i = 0; i < whole; i += lanes) store_final(result + i, load(kept + i) * scale);
    for (int64_t i = whole; i < width; ++i) result[i] = kept[i] * scale;
}

// Streamed, the exponentials wait on the thread's own stack, so that a line of the output is touched once.
static constexpr bool apart = STREAM && width <= 1 << 17;

extern "C" int softmax(const float* x, float* out, void*) {
#pragma omp parallel
    {
        alignas(64) float waiting[apart ? width : 1];
#pragma omp for schedule(dynamic, 1)
        for (int64_t row = 0; row < x_dim0; ++row) {
            float* result = out + row * width;
            softmax_row(x + row * width, apart ? waiting : result, result);
        }
#if STREAM && defined(__SSE__)
        _mm_sfence();
#endif
    }
    return 0;
}
