// One query at a time: scores against all keys, softmax, weighted sum of values; everything in float.
#include "contract.h"

#include <cmath>

static constexpr int64_t heads = q_dim0 * q_dim1, queries = q_dim2, depth = q_dim3, keys = k_dim2, width = v_dim3;

extern "C" size_t attention_fp16_workspace() { return (keys + width) * sizeof(float); }

static float scaled_dot(const _Float16* one, const _Float16* two) {
    float sum = 0;
    for (int64_t i = 0; i < depth; ++i) sum += static_cast<float>(one[i]) * static_cast<float>(two[i]);
    return sum / std::sqrt(static_cast<float>(depth));
}

extern "C" int attention_fp16(const _Float16* q, const _Float16* k, const _Float16* v, _Float16* out, void* workspace) {
    float* weights = static_cast<float*>(workspace);
    float* sums = weights + keys;
    for (int64_t head = 0; head < heads; ++head)
        for (int64_t query = 0; query < queries; ++query) {
            const _Float16* vector = q + (head * queries + query) * depth;
            float largest = -INFINITY;
            for (int64_t key = 0; key < keys; ++key) {
                weights[key] = scaled_dot(vector, k + (head * keys + key) * depth);
                largest = weights[key] > largest ? weights[key] : largest;
            }
            float total = 0;
            for (int64_t j = 0; j < width; ++j) sums[j] = 0;
            for (int64_t key = 0; key < keys; ++key) {
                const float weight = std::exp(weights[key] - largest);
                total += weight;
                for (int64_t j = 0; j < width; ++j)
                    sums[j] += weight * static_cast<float>(v[(head * keys + key) * width + j]);
            }
            _Float16* result = out + (head * queries + query) * width;
            for (int64_t j = 0; j < width; ++j) result[j] = static_cast<_Float16>(sums[j] / total);
        }
    return 0;
}
