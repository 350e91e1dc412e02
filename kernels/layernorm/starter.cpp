// Mean, then variance, then output: three plain passes over each sample, sums in double.
#include "contract.h"

#include <cmath>

extern "C" int layernorm(const float* x, const float* norm_weight, const float* norm_bias, float* out, void*) {
    constexpr int64_t length = norm_weight_numel;
    for (int64_t sample = 0; sample < x_dim0; ++sample) {
        const float* in = x + sample * length;
        float* result = out + sample * length;
        double mean = 0;
        for (int64_t i = 0; i < length; ++i) mean += in[i];
        mean /= length;
        double variance = 0;
        for (int64_t i = 0; i < length; ++i) variance += (in[i] - mean) * (in[i] - mean);
        variance /= length;
        const double scale = 1 / std::sqrt(variance + eps);
        for (int64_t i = 0; i < length; ++i)
            result[i] = static_cast<float>((in[i] - mean) * scale * norm_weight[i] + norm_bias[i]);
    }
    return 0;
}
