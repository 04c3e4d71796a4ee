// Products of matrices that lie in the cache.
#pragma once

#include "vectors.h"

namespace {

// c[H x V vectors] = (or +=) a b, where a(i, x) is at a[i * row + x * column], and b and c lie row by row.
template <int H, int V, bool ADD>
inline void block(int k, const float* a, long row, long column, const float* b, long b_row, float* c, long c_row) {
  vec sums[H][V];
  for (int i = 0; i < H; i++)
    for (int j = 0; j < V; j++) sums[i][j] = ADD ? load(c + i * c_row + j * LANES) : vec{};
  for (int x = 0; x < k; x++) {
    vec line[V];
#pragma GCC unroll 4
    for (int j = 0; j < V; j++) line[j] = load(b + x * b_row + j * LANES);
#pragma GCC unroll 16
    for (int i = 0; i < H; i++) {
      const vec factor = every(a[i * row + x * column]);
#pragma GCC unroll 4
      for (int j = 0; j < V; j++) sums[i][j] += factor * line[j];
    }
  }
  for (int i = 0; i < H; i++)
    for (int j = 0; j < V; j++) store(c + i * c_row + j * LANES, sums[i][j]);
}

// The last rows, fewer than a whole block.
template <int H, int V, bool ADD, class... More> inline void last_rows(int rows, More... more) {
  if constexpr (H > 0) {
    if (rows == H)
      block<H, V, ADD>(more...);
    else
      last_rows<H - 1, V, ADD>(rows, more...);
  }
}

template <int V, bool ADD>
inline void columns(int rows, int k, const float* a, long row, long column, const float* b, long b_row, float* c, long c_row) {
  constexpr int H = V == 1 ? REGISTERS / 2 : (REGISTERS - V - 2) / V > 12 ? 12 : (REGISTERS - V - 2) / V;
  int i = 0;
  for (; i + H <= rows; i += H) block<H, V, ADD>(k, a + i * row, row, column, b, b_row, c + i * c_row, c_row);
  last_rows<H - 1, V, ADD>(rows - i, k, a + i * row, row, column, b, b_row, c + i * c_row, c_row);
}

// c[rows x n] = (or +=) a[rows x k] b[k x n]; n is a multiple of LANES.
template <bool ADD>
void multiply(int rows, int n, int k, const float* a, long row, long column, const float* b, float* c) {
  int j = 0;
  for (; j + 2 * LANES <= n; j += 2 * LANES) columns<2, ADD>(rows, k, a, row, column, b + j, n, c + j, n);
  for (; j < n; j += LANES) columns<1, ADD>(rows, k, a, row, column, b + j, n, c + j, n);
}

}  // namespace
