// All cores, each with the inline exponential: evaluated for the sum and again for the output, so that x is the only
// array that is read, from the core's own cache after the first pass, and every output line is touched once.
#include "contract.h"

#include <cmath>
#include <cstring>

// tune: CHAINS = 1, 2, 4
// tune: GRAIN = 1, 4, 16
#ifndef CHAINS
#define CHAINS 2
#endif
#ifndef GRAIN
#define GRAIN 1
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

static double sum_of(const float* in, float largest) {
    Vector sums[CHAINS] = {};
    for (int64_t i = 0; i < unrolled; i += step)
        for (int c = 0; c < CHAINS; ++c) sums[c] += exp_nonpositive(load(in + i + c * lanes) - largest);
    for (int64_t i = unrolled; i < whole; i += lanes) sums[0] += exp_nonpositive(load(in + i) - largest);
    if (whole < width) sums[0] += exp_nonpositive(load_rest(in + whole, -INFINITY) - largest);
    double sum = 0;
    for (int c = 0; c < CHAINS; ++c) sum += sum_lanes(sums[c]);
    return sum;
}

static void softmax_row(const float* in, float* result) {
    const float largest = largest_of(in);
    const float scale = static_cast<float>(1 / sum_of(in, largest));
    for (int64_t i = 0; i < whole; i += lanes) store(result + i, exp_nonpositive(load(in + i) - largest) * scale);
    if (whole < width) {
        const Vector rest = exp_nonpositive(load_rest(in + whole, -INFINITY) - largest) * scale;
        std::memcpy(result + whole, &rest, (width - whole) * sizeof(float));
    }
}

extern "C" int softmax(const float* x, float* out, void*) {
#pragma omp parallel for schedule(dynamic, GRAIN)
    for (int64_t row = 0; row < x_dim0; ++row) softmax_row(x + row * width, out + row * width);
    return 0;
}
