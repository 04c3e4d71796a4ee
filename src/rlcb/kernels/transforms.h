// Winograd's minimal filtering in one dimension (Lavin and Gray, 2016): a filter of R taps on P numbers gives
// M = P - R + 1 outputs for P multiplications: output(data(d) * filter(g)). The products are those of polynomials,
// evaluated at P points, one of them infinity; data() depends on the points alone.
// Everything is linear, so the way back is the transposed way: data_back, output_back, and the filter's table.
#pragma once

#include "vectors.h"

namespace {

template <int P> struct Points;

// 0, 1, -1, infinity
template <> struct Points<4> {
  static inline void data(const vec* d, vec* t) {
    t[0] = d[0] - d[2];
    t[1] = d[1] + d[2];
    t[2] = d[2] - d[1];
    t[3] = d[1] - d[3];
  }

  static inline void data_back(const vec* t, vec* d) {
    d[0] = t[0];
    d[1] = t[1] - t[2] + t[3];
    d[2] = t[1] + t[2] - t[0];
    d[3] = -t[3];
  }

  template <int M> static inline void output(const vec* m, vec* y) {
    static_assert(M == 3);
    const vec sum = m[1] + m[2];
    y[0] = m[0] + sum;
    y[1] = m[1] - m[2];
    y[2] = sum - m[3];
  }

  template <int M> static inline void output_back(const vec* y, vec* m) {
    const vec even = y[0] + y[2];
    m[0] = y[0];
    m[1] = even + y[1];
    m[2] = even - y[1];
    m[3] = -y[2];
  }

  // How much tap `a` counts at point `i`.
  template <int R> static constexpr float filter(int i, int a) {
    constexpr float at[4][R] = {{1, 0}, {.5f, .5f}, {.5f, -.5f}, {0, 1}};
    return at[i][a];
  }
};

// 0, 1, -1, 2, -2, infinity
template <> struct Points<6> {
  static inline void data(const vec* d, vec* t) {
    const vec a = d[4] - 4 * d[2], b = d[3] - 4 * d[1], c = d[4] - d[2], e = 2 * (d[3] - d[1]);
    t[0] = 4 * d[0] - 5 * d[2] + d[4];
    t[1] = a + b;
    t[2] = a - b;
    t[3] = c + e;
    t[4] = c - e;
    t[5] = 4 * d[1] - 5 * d[3] + d[5];
  }

  static inline void data_back(const vec* t, vec* d) {
    const vec s = t[1] + t[2], m = t[1] - t[2], p = t[3] + t[4], q = 2 * (t[3] - t[4]);
    d[0] = 4 * t[0];
    d[1] = 4 * (t[5] - m) - q;
    d[2] = -5 * t[0] - 4 * s - p;
    d[3] = m + q - 5 * t[5];
    d[4] = t[0] + s + p;
    d[5] = t[5];
  }

  template <int M> static inline void output(const vec* m, vec* y) {
    const vec s = m[1] + m[2], d = m[1] - m[2], p = m[3] + m[4], q = m[3] - m[4];
    y[0] = m[0] + s + p;
    y[1] = d + 2 * q;
    y[2] = s + 4 * p;
    y[3] = d + 8 * q;
    if constexpr (M == 5) y[4] = s + 16 * p;
    y[M - 1] += m[5];
  }

  template <int M> static inline void output_back(const vec* y, vec* m) {
    vec even = y[0] + y[2], odd = y[1] + y[3], even2 = y[0] + 4 * y[2], odd2 = 2 * y[1] + 8 * y[3];
    if constexpr (M == 5) {
      even += y[4];
      even2 += 16 * y[4];
    }
    m[0] = y[0];
    m[1] = even + odd;
    m[2] = even - odd;
    m[3] = even2 + odd2;
    m[4] = even2 - odd2;
    m[5] = y[M - 1];
  }

  template <int R> static constexpr float filter(int i, int a) {
    constexpr float at[5][3] = {{1 / 4.f, 0, 0},
                                {-1 / 6.f, -1 / 6.f, -1 / 6.f},
                                {-1 / 6.f, 1 / 6.f, -1 / 6.f},
                                {1 / 24.f, 1 / 12.f, 1 / 6.f},
                                {1 / 24.f, -1 / 12.f, 1 / 6.f}};
    return i < 5 ? at[i][a] : a == R - 1;
  }
};

}  // namespace
