// Seven plain loops: every output element sums its own window.
#include "contract.h"

extern "C" int conv2d(const float* x, const float* conv_weight, const float* conv_bias, float* out, void*) {
    for (int64_t sample = 0; sample < out_dim0; ++sample)
        for (int64_t channel = 0; channel < out_dim1; ++channel)
            for (int64_t row = 0; row < out_dim2; ++row)
                for (int64_t column = 0; column < out_dim3; ++column) {
                    float sum = conv_bias[channel];
                    for (int64_t c = 0; c < in_channels; ++c)
                        for (int64_t i = 0; i < kernel_size; ++i) {
                            const int64_t y = row * stride + i - padding;
                            if (y < 0 || y >= x_dim2) continue;
                            for (int64_t j = 0; j < kernel_size; ++j) {
                                const int64_t z = column * stride + j - padding;
                                if (z < 0 || z >= x_dim3) continue;
                                sum += x[((sample * in_channels + c) * x_dim2 + y) * x_dim3 + z] *
                                       conv_weight[((channel * in_channels + c) * kernel_size + i) * kernel_size + j];
                            }
                        }
                    out[((sample * out_dim1 + channel) * out_dim2 + row) * out_dim3 + column] = sum;
                }
    return 0;
}
