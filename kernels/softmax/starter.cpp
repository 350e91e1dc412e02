// Three plain passes over each row: maximum, sum of exponentials, scaled output.
#include "contract.h"

#include <cmath>

extern "C" int softmax(const float* x, float* out, void*) {
    for (int64_t row = 0; row < x_dim0; ++row) {
        const float* in = x + row * x_dim1;
        float* result = out + row * x_dim1;
        float largest = in[0];
        for (int64_t i = 1; i < x_dim1; ++i) largest = in[i] > largest ? in[i] : largest;
        double sum = 0;
        for (int64_t i = 0; i < x_dim1; ++i) sum += std::exp(in[i] - largest);
        for (int64_t i = 0; i < x_dim1; ++i) result[i] = static_cast<float>(std::exp(in[i] - largest) / sum);
    }
    return 0;
}
