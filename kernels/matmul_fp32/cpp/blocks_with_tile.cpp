// The register tile inside a cache block: a k-slice of a panel of b stays in the inner cache for all rows.
#include "contract.h"

#include <cstring>

// tune: TILE_ROWS = 4, 6, 8
// tune: TILE_VECTORS = 1, 2, 3
// tune: K_BLOCK = 64, 128, 256, 512
#ifndef TILE_ROWS
#define TILE_ROWS 8
#endif
#ifndef TILE_VECTORS
#define TILE_VECTORS 2
#endif
#ifndef K_BLOCK
#define K_BLOCK 256
#endif

typedef float Vector __attribute__((vector_size(64), aligned(4)));
static constexpr int64_t lanes = 16, rows = a_dim0, inner = a_dim1, columns = b_dim1;
static constexpr int64_t tile_columns = TILE_VECTORS * lanes, tiled = columns / tile_columns * tile_columns;
static constexpr int64_t whole = columns / lanes * lanes;  // columns in full vectors, some of them beyond the last tile

template <int height, int vectors>
static void multiply_tile(const float* a, const float* b, float* out, int64_t count) {
    Vector sums[height][vectors];
#pragma GCC unroll 8
    for (int i = 0; i < height; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < vectors; ++j) sums[i][j] = *reinterpret_cast<Vector*>(out + i * columns + j * lanes);
    for (int64_t k = 0; k < count; ++k)
#pragma GCC unroll 8
        for (int i = 0; i < height; ++i)
#pragma GCC unroll 8
            for (int j = 0; j < vectors; ++j)
                sums[i][j] += a[i * inner + k] * *reinterpret_cast<const Vector*>(b + k * columns + j * lanes);
#pragma GCC unroll 8
    for (int i = 0; i < height; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < vectors; ++j) *reinterpret_cast<Vector*>(out + i * columns + j * lanes) = sums[i][j];
}

static void multiply_edge(const float* a, const float* b, float* out, int64_t row) {
    for (int64_t j = whole; j < columns; ++j) {
        float sum = 0;
        for (int64_t k = 0; k < inner; ++k) sum += a[row * inner + k] * b[k * columns + j];
        out[row * columns + j] = sum;
    }
}

// Some rows of one tile of columns.
template <int vectors>
static void multiply_columns(const float* a, const float* b, float* out, int64_t row, int64_t last, int64_t count) {
    int64_t i = row;
    for (; i + TILE_ROWS <= last; i += TILE_ROWS)
        multiply_tile<TILE_ROWS, vectors>(a + i * inner, b, out + i * columns, count);
    for (; i < last; ++i) multiply_tile<1, vectors>(a + i * inner, b, out + i * columns, count);
}

// All k of a few rows: nobody else writes there, so slices need no barrier.
static void multiply_rows(const float* a, const float* b, float* out, int64_t row, int64_t last) {
    for (int64_t i = row; i < last; ++i) {
        std::memset(out + i * columns, 0, whole * sizeof(float));
        multiply_edge(a, b, out, i);
    }
    for (int64_t k = 0; k < inner; k += K_BLOCK) {
        const int64_t count = inner - k < K_BLOCK ? inner - k : K_BLOCK;
        const float* slice = b + k * columns;
        for (int64_t column = 0; column < tiled; column += tile_columns)
            multiply_columns<TILE_VECTORS>(a + k, slice + column, out + column, row, last, count);
        for (int64_t column = tiled; column < whole; column += lanes)
            multiply_columns<1>(a + k, slice + column, out + column, row, last, count);
    }
}

extern "C" int matmul_fp32(const float* a, const float* b, float* out, void*) {
    constexpr int64_t group = 8 * TILE_ROWS;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t row = 0; row < rows; row += group) multiply_rows(a, b, out, row, row + group < rows ? row + group : rows);
    return 0;
}
