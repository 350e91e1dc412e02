// Online softmax by blocks: maximum of a block first, then its exponentials against a fixed maximum.
// The exponentials are kept, with the maximum each block was taken against, and only scaled on the way out.
#include "contract.h"

#include <cmath>
#include <cstring>

// tune: BLOCK = 256, 1024, 4096
#ifndef BLOCK
#define BLOCK 1024
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

static constexpr int64_t blocks = (width + BLOCK - 1) / BLOCK;
static_assert(BLOCK % lanes == 0, "a block is made of whole vectors");

static void softmax_row(const float* in, float* result) {
    float taken[blocks];
    float largest = -INFINITY;
    double sum = 0;
    for (int64_t b = 0; b < blocks; ++b) {
        const int64_t first = b * BLOCK, last = first + BLOCK < width ? first + BLOCK : width;
        const int64_t full = last < whole ? last : whole;
        Vector top = Vector{} - INFINITY;
        for (int64_t i = first; i < full; i += lanes) top = larger(top, load(in + i));
        if (full < last) top = larger(top, load_rest(in + whole, -INFINITY));
        const float found = largest_lane(top);
        if (found > largest) {
            sum *= std::exp(largest - found);
            largest = found;
        }
        taken[b] = largest;
        Vector sums = {};
        for (int64_t i = first; i < full; i += lanes) {
            const Vector value = exp_nonpositive(load(in + i) - largest);
            store(result + i, value);
            sums += value;
        }
        if (full < last) {
            const Vector rest = exp_nonpositive(load_rest(in + whole, -INFINITY) - largest);
            std::memcpy(result + whole, &rest, (width - whole) * sizeof(float));
            sums += rest;
        }
        sum += sum_lanes(sums);
    }
    for (int64_t b = 0; b < blocks; ++b) {
        const int64_t first = b * BLOCK, last = first + BLOCK < width ? first + BLOCK : width;
        const float scale = static_cast<float>(std::exp(static_cast<double>(taken[b]) - largest) / sum);
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
