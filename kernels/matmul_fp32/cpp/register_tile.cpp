// A tile of the result stays in registers over the whole k loop; operands are read where they lie.
#include "contract.h"

#include <cstring>

// tune: TILE_ROWS = 2, 4, 6, 8
// tune: TILE_VECTORS = 1, 2, 3
// tune-if: TILE_ROWS * TILE_VECTORS <= 24
#ifndef TILE_ROWS
#define TILE_ROWS 6
#endif
#ifndef TILE_VECTORS
#define TILE_VECTORS 2
#endif

typedef float Vector __attribute__((vector_size(64), aligned(4)));
static constexpr int64_t lanes = 16, rows = a_dim0, inner = a_dim1, columns = b_dim1;

static constexpr int64_t tile_columns = TILE_VECTORS * lanes, tiled = columns / tile_columns * tile_columns;
static constexpr int64_t whole = columns / lanes * lanes;  // columns in full vectors, some of them beyond the last tile

template <int height, int vectors>
static void multiply_tile(const float* a, const float* b, float* out) {
    Vector sums[height][vectors] = {};
    for (int64_t k = 0; k < inner; ++k)
#pragma GCC unroll 8
        for (int i = 0; i < height; ++i) {
            const float value = a[i * inner + k];
#pragma GCC unroll 8
            for (int j = 0; j < vectors; ++j)
                sums[i][j] += value * *reinterpret_cast<const Vector*>(b + k * columns + j * lanes);
        }
    // Unrolled too: an index known only at run time would keep the sums out of registers.
#pragma GCC unroll 8
    for (int i = 0; i < height; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < vectors; ++j) std::memcpy(out + i * columns + j * lanes, &sums[i][j], sizeof(Vector));
}

// All rows of one tile of columns.
template <int vectors>
static void multiply_columns(const float* a, const float* b, float* out) {
    constexpr int64_t last = rows / TILE_ROWS * TILE_ROWS;
    for (int64_t i = 0; i < last; i += TILE_ROWS) multiply_tile<TILE_ROWS, vectors>(a + i * inner, b, out + i * columns);
    for (int64_t i = last; i < rows; ++i) multiply_tile<1, vectors>(a + i * inner, b, out + i * columns);
}

static void multiply_rest(const float* a, const float* b, float* out) {
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = whole; j < columns; ++j) {
            float sum = 0;
            for (int64_t k = 0; k < inner; ++k) sum += a[i * inner + k] * b[k * columns + j];
            out[i * columns + j] = sum;
        }
}

extern "C" int matmul_fp32(const float* a, const float* b, float* out, void*) {
    for (int64_t column = 0; column < tiled; column += tile_columns)
        multiply_columns<TILE_VECTORS>(a, b + column, out + column);
    for (int64_t column = tiled; column < whole; column += lanes) multiply_columns<1>(a, b + column, out + column);
    multiply_rest(a, b, out);
    return 0;
}
