// Convolve one whole map into the workspace, then take window maxima of it.
#include "contract.h"

static constexpr int64_t rows = (x_dim2 + 2 * padding - kernel_size) / stride + 1;
static constexpr int64_t columns = (x_dim3 + 2 * padding - kernel_size) / stride + 1;

extern "C" size_t conv2d_relu_maxpool_workspace() { return rows * columns * sizeof(float); }

static float window(const float* image, const float* weight, int64_t row, int64_t column) {
    float sum = 0;
    for (int64_t c = 0; c < in_channels; ++c)
        for (int64_t i = 0; i < kernel_size; ++i) {
            const int64_t y = row * stride + i - padding;
            if (y < 0 || y >= x_dim2) continue;
            for (int64_t j = 0; j < kernel_size; ++j) {
                const int64_t z = column * stride + j - padding;
                if (z < 0 || z >= x_dim3) continue;
                sum += image[(c * x_dim2 + y) * x_dim3 + z] * weight[(c * kernel_size + i) * kernel_size + j];
            }
        }
    return sum;
}

extern "C" int conv2d_relu_maxpool(const float* x, const float* conv_weight, const float* conv_bias, float* out,
                                   void* workspace) {
    float* map = static_cast<float*>(workspace);
    for (int64_t sample = 0; sample < x_dim0; ++sample)
        for (int64_t channel = 0; channel < out_channels; ++channel) {
            const float* image = x + sample * in_channels * x_dim2 * x_dim3;
            const float* weight = conv_weight + channel * in_channels * kernel_size * kernel_size;
            for (int64_t row = 0; row < rows; ++row)
                for (int64_t column = 0; column < columns; ++column)
                    map[row * columns + column] = window(image, weight, row, column) + conv_bias[channel];
            float* result = out + (sample * out_channels + channel) * out_dim2 * out_dim3;
            for (int64_t row = 0; row < out_dim2; ++row)
                for (int64_t column = 0; column < out_dim3; ++column) {
                    float largest = 0;  // ReLU: nothing below zero
                    for (int64_t i = 0; i < pool_size; ++i)
                        for (int64_t j = 0; j < pool_size; ++j) {
                            const float value = map[(row * pool_stride + i) * columns + column * pool_stride + j];
                            largest = value > largest ? value : largest;
                        }
                    result[row * out_dim3 + column] = largest;
                }
        }
    return 0;
}
