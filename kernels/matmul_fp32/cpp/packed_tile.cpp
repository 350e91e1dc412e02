// Register tile over packed panels of b and packed strips of a, k in slices, all cores: Goto's scheme.
#include "contract.h"

#include <cstring>

// tune: TILE_ROWS = 4, 6, 8, 12, 14
// tune: TILE_VECTORS = 1, 2, 3, 4
// tune: K_BLOCK = 128, 256, 512
// tune: STRIPS = 1, 4, 8
// tune-if: TILE_ROWS * TILE_VECTORS <= 28
#ifndef STRIPS
#define STRIPS 4
#endif
#ifndef TILE_ROWS
#define TILE_ROWS 12
#endif
#ifndef TILE_VECTORS
#define TILE_VECTORS 2
#endif
#ifndef K_BLOCK
#define K_BLOCK 256
#endif

typedef float Vector __attribute__((vector_size(64), aligned(4)));
static constexpr int64_t lanes = 16, rows = a_dim0, inner = a_dim1, columns = b_dim1;
static constexpr int64_t strips = (rows + TILE_ROWS - 1) / TILE_ROWS;
static constexpr int64_t slice = K_BLOCK < inner ? K_BLOCK : inner;

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

extern "C" size_t matmul_fp32_workspace() { return panels * panel_columns * slice * sizeof(float); }

// A strip of a, TILE_ROWS high, columns consecutive; rows beyond the end are zeros.
static void pack_strip(const float* a, float* packed, int64_t strip, int64_t first_k, int64_t count) {
    for (int64_t i = 0; i < TILE_ROWS; ++i) {
        const int64_t row = strip * TILE_ROWS + i;
        for (int64_t k = 0; k < count; ++k) packed[k * TILE_ROWS + i] = row < rows ? a[row * inner + first_k + k] : 0;
    }
}

static void multiply_tile(const float* a, const float* b, int64_t count, float* out, int64_t height, int64_t width,
                          bool first) {
    Vector sums[TILE_ROWS][TILE_VECTORS] = {};
    for (int64_t k = 0; k < count; ++k) {
        Vector row[TILE_VECTORS];
#pragma GCC unroll 8
        for (int j = 0; j < TILE_VECTORS; ++j)
            row[j] = *reinterpret_cast<const Vector*>(b + k * panel_columns + j * lanes);
#pragma GCC unroll 16
        for (int i = 0; i < TILE_ROWS; ++i)
#pragma GCC unroll 8
            for (int j = 0; j < TILE_VECTORS; ++j) sums[i][j] += a[k * TILE_ROWS + i] * row[j];
    }
    if (width == panel_columns && height == TILE_ROWS) {
#pragma GCC unroll 16
        for (int i = 0; i < TILE_ROWS; ++i)
#pragma GCC unroll 8
            for (int j = 0; j < TILE_VECTORS; ++j) {
                Vector* to = reinterpret_cast<Vector*>(out + i * columns + j * lanes);
                *to = first ? sums[i][j] : *to + sums[i][j];
            }
        return;
    }
    alignas(64) float edge[TILE_ROWS * panel_columns];
    std::memcpy(edge, sums, sizeof edge);
    for (int64_t i = 0; i < height; ++i)
        for (int64_t j = 0; j < width; ++j) {
            const float value = edge[i * panel_columns + j];
            out[i * columns + j] = first ? value : out[i * columns + j] + value;
        }
}

extern "C" int matmul_fp32(const float* a, const float* b, float* out, void* workspace) {
    float* packed = static_cast<float*>(workspace);
#pragma omp parallel
    for (int64_t first_k = 0; first_k < inner; first_k += slice) {
        const int64_t count = inner - first_k < slice ? inner - first_k : slice;
#pragma omp for schedule(static)
        for (int64_t panel = 0; panel < panels; ++panel)
            pack_panel(b, packed + panel * panel_columns * slice, panel, first_k, count);
        alignas(64) float block[STRIPS * TILE_ROWS * slice];
#pragma omp for schedule(dynamic, 1)
        for (int64_t first = 0; first < strips; first += STRIPS) {
            const int64_t last = first + STRIPS < strips ? first + STRIPS : strips;
            for (int64_t strip = first; strip < last; ++strip)
                pack_strip(a, block + (strip - first) * TILE_ROWS * slice, strip, first_k, count);
            // A panel of b is used for all strips of the block while it is in the innermost cache.
            for (int64_t panel = 0; panel < panels; ++panel)
                for (int64_t strip = first; strip < last; ++strip) {
                    const int64_t row = strip * TILE_ROWS, height = rows - row < TILE_ROWS ? rows - row : TILE_ROWS;
                    const int64_t column = panel * panel_columns;
                    const int64_t width = columns - column < panel_columns ? columns - column : panel_columns;
                    multiply_tile(block + (strip - first) * TILE_ROWS * slice, packed + panel * panel_columns * slice,
                                  count, out + row * columns + column, height, width, first_k == 0);
                }
        }
    }
    return 0;
}
