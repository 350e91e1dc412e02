// All workers on blocks of the result, each block made of register tiles: the columns of b that a block needs stay in
// the worker's own cache for all its rows. Operands are read where they lie.
#include "contract.h"

#include <cstring>

// tune: TILE_ROWS = 4, 6, 8
// tune: TILE_VECTORS = 1, 2, 3
// tune: BLOCK_TILES = 4, 8, 16, 32
// (tiles below each other in a block)
// tune-if: TILE_ROWS * TILE_VECTORS <= 24
#ifndef BLOCK_TILES
#define BLOCK_TILES 16
#endif
#ifndef TILE_ROWS
#define TILE_ROWS 8
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

// Some rows of one tile of columns.
template <int vectors>
static void multiply_columns(const float* a, const float* b, float* out, int64_t row, int64_t last) {
    int64_t i = row;
    for (; i + TILE_ROWS <= last; i += TILE_ROWS)
        multiply_tile<TILE_ROWS, vectors>(a + i * inner, b, out + i * columns);
    for (; i < last; ++i) multiply_tile<1, vectors>(a + i * inner, b, out + i * columns);
}

// Columns that fill no vector.
static void multiply_rest(const float* a, const float* b, float* out, int64_t row, int64_t last) {
    for (int64_t i = row; i < last; ++i)
        for (int64_t j = whole; j < columns; ++j) {
            float sum = 0;
            for (int64_t k = 0; k < inner; ++k) sum += a[i * inner + k] * b[k * columns + j];
            out[i * columns + j] = sum;
        }
}

static constexpr int64_t height = BLOCK_TILES * TILE_ROWS;
static constexpr int64_t wide = tiled / tile_columns, narrow = (whole - tiled) / lanes, rest = columns > whole;

extern "C" int matmul_fp32(const float* a, const float* b, float* out, void*) {
#pragma omp parallel for collapse(2) schedule(dynamic, 1)
    for (int64_t row = 0; row < rows; row += height)
        for (int64_t strip = 0; strip < wide + narrow + rest; ++strip) {
            const int64_t last = row + height < rows ? row + height : rows;
            const int64_t single = tiled + (strip - wide) * lanes;
            if (strip < wide)
                multiply_columns<TILE_VECTORS>(a, b + strip * tile_columns, out + strip * tile_columns, row, last);
            else if (strip < wide + narrow)
                multiply_columns<1>(a, b + single, out + single, row, last);
            else
                multiply_rest(a, b, out, row, last);
        }
    return 0;
}
