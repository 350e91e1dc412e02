// Row in cache, with the next row on its way: while exponentials are taken, the lines at the same place of the row that
// this core takes next are asked for, so that its maximum is not found at the pace of memory.
#include "contract.h"

#include <cmath>
#include <cstring>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

// tune: CHAINS = 1, 2, 4, 8
// tune: SHARE = 2, 4, 8, 16
// (rows that a core takes at a time)
// tune: AHEAD = 0, 1
// tune: STREAM = 0, 1
#ifndef CHAINS
#define CHAINS 4
#endif
#ifndef SHARE
#define SHARE 8
#endif
#ifndef AHEAD
#define AHEAD 1
#endif
#ifndef STREAM
#define STREAM 1
#endif

typedef float Vector __attribute__((vector_size(64)));
typedef uint32_t Bits __attribute__((vector_size(64)));
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

// e^x for x <= 0, relative error about 1e-7: x = n ln 2 + r. Adding 1.5 * 2^23 rounds to n and leaves n in
// the lowest bits, which are added to the exponent of the polynomial: no conversion, no product with 2^n.
static inline Vector exp_nonpositive(Vector x) {
    constexpr float round = 12582912.0f;
    const Vector bounded = larger(x, Vector{} - 87.0f);
    const Vector shifted = bounded * 1.44269504f + round;
    const Vector n = shifted - round;
    const Vector r = bounded - n * 0.693359375f + n * 2.12194440e-4f;
    Vector p = r * 1.98756915e-4f + 1.39819995e-3f;
    p = p * r + 8.33345191e-3f;
    p = p * r + 4.16657959e-2f;
    p = p * r + 1.66666655e-1f;
    p = p * r + 5.00000012e-1f;
    p = p * r * r + r + 1.0f;
    Bits power, bits;
    std::memcpy(&power, &shifted, sizeof power);
    std::memcpy(&bits, &p, sizeof bits);
    bits += power << 23;
    std::memcpy(&p, &bits, sizeof p);
    return x > -87.0f ? p : Vector{};
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

// The last store of an element. Past the cache, a line that is written whole need not be read first.
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

static constexpr int64_t step = CHAINS * lanes, unrolled = width / step * step;

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

// Exponentials of a row against its maximum, kept for the last pass; the inverse of their sum.
static float scale_of(const float* in, float largest, float* kept, const float* next) {
    Vector sums[CHAINS] = {};
    for (int64_t i = 0; i < unrolled; i += step)
        for (int c = 0; c < CHAINS; ++c) {
            if (AHEAD) __builtin_prefetch(next + i + c * lanes, 0, 2);
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
    return static_cast<float>(1 / sum);
}

// The exponentials wait on the thread's own stack where they fit, so that a line of the output is written once.
static constexpr bool apart = STREAM && width <= 1 << 17;

static void softmax_rows(const float* x, float* out, int64_t first, int64_t last) {
    alignas(64) float waiting[apart ? width : 1];
    for (int64_t row = first; row < last; ++row) {
        const float* in = x + row * width;
        float* result = out + row * width;
        float* kept = apart ? waiting : result;
        const float largest = largest_of(in);
        const float scale = scale_of(in, largest, kept, row + 1 < last ? in + width : in);
        for (int64_t i = 0; i < whole; i += lanes) store_final(result + i, load(kept + i) * scale);
        for (int64_t i = whole; i < width; ++i) result[i] = kept[i] * scale;
    }
#if STREAM && defined(__SSE__)
    _mm_sfence();
#endif
}

extern "C" int softmax(const float* x, float* out, void*) {
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t row = 0; row < x_dim0; row += SHARE)
        softmax_rows(x, out, row, row + SHARE < x_dim0 ? row + SHARE : x_dim0);
    return 0;
}
