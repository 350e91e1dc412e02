// One pass with one exponential per element: the sum is held against a base that is moved only when a group of vectors
// rises far above it. Exponentials larger than one are as exact as others, so the base need not be the maximum.
#include "contract.h"

#include <cfloat>
#include <cmath>
#include <cstring>

// tune: GROUP = 2, 4, 8, 16
// (vectors that are looked at together)
#ifndef GROUP
#define GROUP 4
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

// e^x for x <= 16, relative error about 1e-7: x = n ln 2 + r. Adding 1.5 * 2^23 rounds to n and leaves n in
// the lowest bits, which are added to the exponent of the polynomial: no conversion, no product with 2^n.
static inline Vector exp_near(Vector x) {
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

static constexpr int64_t step = GROUP * lanes, groups = (width + step - 1) / step, unrolled = width / step * step;
static constexpr float room = 16.0f;      // e^16 times the longest row is far from overflow
static constexpr float lowest = -FLT_MAX;  // finite, so that minus infinity is far below it and not its equal

static inline bool is_above(Vector v, float limit) {
    float lane[lanes];
    std::memcpy(lane, &v, sizeof v);
    int found = 0;
    for (int i = 0; i < lanes; ++i) found |= lane[i] > limit;
    return found;
}

struct Running {
    float base = lowest;
    double before = 0;  // the sum up to the last move of the base, against the present base
    Vector sums[2] = {};

    void move_to(float found) {
        before = (before + sum_lanes(sums[0] + sums[1])) * std::exp(static_cast<double>(base) - found);
        sums[0] = sums[1] = Vector{};
        base = found;
    }
};

static void softmax_row(const float* in, float* result) {
    float taken[groups];
    Running run;
    for (int64_t i = 0; i < unrolled; i += step) {
        Vector top = load(in + i);
        for (int g = 1; g < GROUP; ++g) top = larger(top, load(in + i + g * lanes));
        if (is_above(top, run.base + room)) run.move_to(largest_lane(top));
        for (int g = 0; g < GROUP; ++g) {
            const Vector value = exp_near(load(in + i + g * lanes) - run.base);
            store(result + i + g * lanes, value);
            run.sums[g % 2] += value;
        }
        taken[i / step] = run.base;
    }
    if (unrolled < width) {  // the last group is short
        Vector top = Vector{} - INFINITY;
        for (int64_t i = unrolled; i < whole; i += lanes) top = larger(top, load(in + i));
        if (whole < width) top = larger(top, load_rest(in + whole, -INFINITY));
        if (is_above(top, run.base + room)) run.move_to(largest_lane(top));
        for (int64_t i = unrolled; i < whole; i += lanes) {
            const Vector value = exp_near(load(in + i) - run.base);
            store(result + i, value);
            run.sums[0] += value;
        }
        if (whole < width) {
            const Vector rest = exp_near(load_rest(in + whole, -INFINITY) - run.base);
            std::memcpy(result + whole, &rest, (width - whole) * sizeof(float));
            run.sums[1] += rest;
        }
        taken[groups - 1] = run.base;
    }
    const double sum = run.before + sum_lanes(run.sums[0] + run.sums[1]);
    float base = run.base, scale = static_cast<float>(1 / sum);
    for (int64_t g = groups - 1; g >= 0; --g) {  // backwards: the end of the row is still in the nearest cache
        if (taken[g] != base) {
            base = taken[g];
            scale = static_cast<float>(std::exp(static_cast<double>(base) - run.base) / sum);
        }
        const int64_t first = g * step, last = first + step < width ? first + step : width;
        const int64_t full = last < whole ? last : whole;
        for (int64_t i = first; i < full; i += lanes) store(result + i, load(result + i) * scale);
        for (int64_t i = full; i < last; ++i) result[i] *= scale;
    }
}

extern "C" int softmax(const float* x, float* out, void*) {
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t row = 0; row < x_dim0; ++row) softmax_row(x + row * width, out + row * width);
    return 0;
}
