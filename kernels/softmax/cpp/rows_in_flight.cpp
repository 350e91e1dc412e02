// Each core takes runs of neighbouring rows. One loop scales a row and takes the maximum of the next, so that memory
// delivers the next row while the exponentials of this one leave.
#include "contract.h"

#include <cmath>
#include <cstring>

// tune: CHAINS = 1, 2, 4
// tune: SHARE = 2, 4, 8, 16
// (rows that a core takes at a time)
#ifndef CHAINS
#define CHAINS 4
#endif
#ifndef SHARE
#define SHARE 8
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
static float scale_of(const float* in, float largest, float* kept) {
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
    return static_cast<float>(1 / sum);
}

// Scales a row in place; the maximum of the next one, read in the same loop.
static float scale_and_look(float* result, float scale, const float* next) {
    Vector top[CHAINS];
    for (int c = 0; c < CHAINS; ++c) top[c] = Vector{} - INFINITY;
    for (int64_t i = 0; i < unrolled; i += step)
        for (int c = 0; c < CHAINS; ++c) {
            const int64_t at = i + c * lanes;
            top[c] = larger(top[c], load(next + at));
            store(result + at, load(result + at) * scale);
        }
    for (int64_t i = unrolled; i < whole; i += lanes) {
        top[0] = larger(top[0], load(next + i));
        store(result + i, load(result + i) * scale);
    }
    if (whole < width) top[0] = larger(top[0], load_rest(next + whole, -INFINITY));
    for (int64_t i = whole; i < width; ++i) result[i] *= scale;
    for (int c = 1; c < CHAINS; ++c) top[0] = larger(top[0], top[c]);
    return largest_lane(top[0]);
}

static void softmax_rows(const float* x, float* out, int64_t first, int64_t last) {
    float largest = first < last ? largest_of(x + first * width) : 0;
    for (int64_t row = first; row < last; ++row) {
        float* result = out + row * width;
        const float scale = scale_of(x + row * width, largest, result);
        const int64_t next = row + 1 < last ? row + 1 : row;
        largest = scale_and_look(result, scale, x + next * width);
    }
}

extern "C" int softmax(const float* x, float* out, void*) {
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t row = 0; row < x_dim0; row += SHARE)
        softmax_rows(x, out, row, row + SHARE < x_dim0 ? row + SHARE : x_dim0);
    return 0;
}
