// b is packed once into panels; rows of the result are updated four at a time from a panel that stays in cache.
#include "contract.h"

#include <cstring>

// tune: TILE_VECTORS = 1, 2, 4
#ifndef TILE_VECTORS
#define TILE_VECTORS 2
#endif

typedef float Vector __attribute__((vector_size(64), aligned(4)));
static constexpr int64_t lanes = 16, rows = a_dim0, inner = a_dim1, columns = b_dim1;

// Panels of b, `panel_columns` wide, rows consecutive: read front to back by the tile; the last one is filled with zeros.
static constexpr int64_t panel_columns = TILE_VECTORS * lanes, panels = (columns + panel_columns - 1) / panel_columns;

static void pack_panel(const float* b, float* packed, int64_t panel, int64_t first_k, int64_t count) {
    const int64_t first = panel * panel_columns;
    const int64_t width = columns - first < panel_columns ? columns - first : panel_columns;
    for (int64_t k = 0; k < count; ++k) {
        float* to = packed + k * panel_columns;
        std::memcpy(to, b + (first_k + k) * columns + first, width * sizeof(float));
        for (int64_t j = width; j < panel_columns; ++j) to[j] = 0;
    }
}

extern "C" size_t matmul_fp32_workspace() { return panels * panel_columns * inner * sizeof(float); }

template <int height>
static void multiply_rows(const float* a, const float* packed, float* out, int64_t width) {
    Vector sums[height][TILE_VECTORS] = {};
    for (int64_t k = 0; k < inner; ++k)
#pragma GCC unroll 8
        for (int i = 0; i < height; ++i) {
            const float value = a[i * inner + k];
#pragma GCC unroll 8
            for (int j = 0; j < TILE_VECTORS; ++j)
                sums[i][j] += value * *reinterpret_cast<const Vector*>(packed + k * panel_columns + j * lanes);
        }
    for (int i = 0; i < height; ++i) std::memcpy(out + i * columns, sums[i], width * sizeof(float));
}

extern "C" int matmul_fp32(const float* a, const float* b, float* out, void* workspace) {
    float* packed = static_cast<float*>(workspace);
    for (int64_t panel = 0; panel < panels; ++panel) {
        float* here = packed + panel * panel_columns * inner;
        pack_panel(b, here, panel, 0, inner);
        const int64_t first = panel * panel_columns;
        const int64_t width = columns - first < panel_columns ? columns - first : panel_columns;
        int64_t i = 0;
        for (; i + 4 <= rows; i += 4) multiply_rows<4>(a + i * inner, here, out + i * columns + first, width);
        for (; i < rows; ++i) multiply_rows<1>(a + i * inner, here, out + i * columns + first, width);
    }
    return 0;
}
