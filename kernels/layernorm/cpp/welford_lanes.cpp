// Welford's recurrence in every lane, in several chains, over pieces that are merged in double.
#include "contract.h"

#include <cmath>
#include <cstring>

// tune: CHAINS = 2, 4, 8
// tune: STEPS = 64, 256, 1024
#ifndef CHAINS
#define CHAINS 4
#endif
#ifndef STEPS
#define STEPS 256
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

static constexpr int64_t step = CHAINS * lanes, piece = step * STEPS;

// Values are shifted by the first of the piece: float keeps all its digits for what varies.
static Moments moments_of(const float* in, int64_t count) {
    const float shift = in[0];
    Vector mean[CHAINS] = {}, m2[CHAINS] = {};
    const int64_t unrolled = count / step * step;
    int64_t steps = 0;
    for (int64_t i = 0; i < unrolled; i += step) {
        const float share = 1.0f / static_cast<float>(++steps);
        for (int c = 0; c < CHAINS; ++c) {
            const Vector value = load(in + i + c * lanes) - shift;
            const Vector before = value - mean[c];
            mean[c] += before * share;
            m2[c] += before * (value - mean[c]);
        }
    }
    Moments found;
    for (int c = 0; c < CHAINS; ++c)
        for (int lane = 0; lane < lanes; ++lane)
            if (steps > 0) found.merge({static_cast<double>(steps), mean[c][lane], m2[c][lane]});
    for (int64_t i = unrolled; i < count; ++i) found.merge({1, static_cast<double>(in[i]) - shift, 0});
    found.mean += shift;
    return found;
}

static void normalise(const float* in, const float* weight, const float* bias, float* result, const Moments& moments,
                      int64_t count) {
    const float scale = static_cast<float>(1 / std::sqrt(moments.m2 / moments.count + eps));
    // The mean in two floats: a single one would be off by more than 1e-4 deviations where the mean is large.
    const float high = static_cast<float>(moments.mean), low = static_cast<float>(moments.mean - high);
    const int64_t whole = count / lanes * lanes;
    for (int64_t i = 0; i < whole; i += lanes) {
        const Vector v = ((load(in + i) - high) - low) * scale * load(weight + i) + load(bias + i);
        std::memcpy(result + i, &v, sizeof v);
    }
    for (int64_t i = whole; i < count; ++i) result[i] = ((in[i] - high) - low) * scale * weight[i] + bias[i];
}

extern "C" int layernorm(const float* x, const float* norm_weight, const float* norm_bias, float* out, void*) {
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t sample = 0; sample < samples; ++sample) {
        const float* in = x + sample * length;
        Moments moments;
        for (int64_t i = 0; i < length; i += piece) moments.merge(moments_of(in + i, piece < length - i ? piece : length - i));
        normalise(in, norm_weight, norm_bias, out + sample * length, moments, length);
    }
    return 0;
}
