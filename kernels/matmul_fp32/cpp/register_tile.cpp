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

static constexpr int64_t tile_columns = TILE_VECTORS * lanes, whole = columns / tile_columns * tile_columns;

template <int height>
static void multiply_tile(const float* a, const float* b, float* out) {
    Vector sums[height][TILE_VECTORS] = {};
    for (int64_t k = 0; k < inner; ++k)
#pragma GCC unroll 8
        for (int i = 0; i < height; ++i) {
            const float value = a[i * inner + k];
#pragma GCC unroll 8
            for (int j = 0; j < TILE_VECTORS; ++j)
                sums[i][j] += value * *reinterpret_cast<const Vector*>(b + k * columns + j * lanes);
        }
    // Unrolled too: an index known only at run time would keep the sums out of registers.
#pragma GCC unroll 8
    for (int i = 0; i < height; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < TILE_VECTORS; ++j) std::memcpy(out + i * columns + j * lanes, &sums[i][j], sizeof(Vector));
}

static void multiply_rest(const float* a, const float* b, float* out, int64_t first_row, int64_t last_row,
                          int64_t first_column) {
    for (int64_t i = first_row; i < last_row; ++i)
        for (int64_t j = first_column; j < columns; ++j) {
            float sum = 0;
            for (int64_t k = 0; k < inner; ++k) sum += a[i * inner + k] * b[k * columns + j];
            out[i * columns + j] = sum;
        }
}

extern "C" int matmul_fp32(const float* a, const float* b, float* out, void*) {
    constexpr int64_t tiles = rows / TILE_ROWS;
    for (int64_t column = 0; column < whole; column += tile_columns) {
        for (int64_t tile = 0; tile < tiles; ++tile)
            multiply_tile<TILE_ROWS>(a + tile * TILE_ROWS * inner, b + column, out + tile * TILE_ROWS * columns + column);
        for (int64_t i = tiles * TILE_ROWS; i < rows; ++i)
            multiply_tile<1>(a + i * inner, b + column, out + i * columns + column);
    }
    multiply_rest(a, b, out, 0, rows, whole);
    return 0;
}
