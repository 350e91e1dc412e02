// Two passes for exact moments, one for the output, each on full vectors with independent accumulators in double.
#include "contract.h"

#include <cmath>
#include <cstring>

// tune: CHAINS = 1, 2, 4, 8
#ifndef CHAINS
#define CHAINS 4
#endif

typedef double Doubles __attribute__((vector_size(64)));
typedef float Floats __attribute__((vector_size(32)));  // as many lanes as Doubles
static constexpr int64_t lanes = 8, length = norm_weight_numel, step = CHAINS * lanes, unrolled = length / step * step;

static inline Floats load(const float* from) {
    Floats v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

static inline Doubles widen(const float* from) { return __builtin_convertvector(load(from), Doubles); }

static double sum_lanes(const Doubles* sums) {
    double total = 0;
    for (int c = 0; c < CHAINS; ++c)
        for (int i = 0; i < lanes; ++i) total += sums[c][i];
    return total;
}

static double mean_of(const float* in) {
    Doubles sums[CHAINS] = {};
    for (int64_t i = 0; i < unrolled; i += step)
        for (int c = 0; c < CHAINS; ++c) sums[c] += widen(in + i + c * lanes);
    double total = sum_lanes(sums);
    for (int64_t i = unrolled; i < length; ++i) total += in[i];
    return total / length;
}

static double variance_of(const float* in, double mean) {
    Doubles sums[CHAINS] = {};
    for (int64_t i = 0; i < unrolled; i += step)
        for (int c = 0; c < CHAINS; ++c) {
            const Doubles apart = widen(in + i + c * lanes) - mean;
            sums[c] += apart * apart;
        }
    double total = sum_lanes(sums);
    for (int64_t i = unrolled; i < length; ++i) total += (in[i] - mean) * (in[i] - mean);
    return total / length;
}

extern "C" int layernorm(const float* x, const float* norm_weight, const float* norm_bias, float* out, void*) {
    for (int64_t sample = 0; sample < x_dim0; ++sample) {
        const float* in = x + sample * length;
        float* result = out + sample * length;
        const double mean = mean_of(in);
        const float scale = static_cast<float>(1 / std::sqrt(variance_of(in, mean) + eps));
        // The mean in two floats: a single one would be off by more than 1e-4 deviations where the mean is large.
        const float high = static_cast<float>(mean), low = static_cast<float>(mean - high);
        constexpr int64_t whole = length / lanes * lanes;
        for (int64_t i = 0; i < whole; i += lanes) {
            const Floats v = ((load(in + i) - high) - low) * scale * load(norm_weight + i) + load(norm_bias + i);
            std::memcpy(result + i, &v, sizeof v);
        }
        for (int64_t i = whole; i < length; ++i) result[i] = ((in[i] - high) - low) * scale * norm_weight[i] + norm_bias[i];
    }
    return 0;
}
