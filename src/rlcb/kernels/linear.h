// A linear layer and ReLU on few rows. Weights are taken as they lie: bringing them into another order first costs
// about as much as the product.
#pragma once

#include "vectors.h"

namespace {

// Sums of neighbours at a distance of D, of two registers, in turns of D.
template <int D> inline vec fold(vec a, vec b) {
  typedef int numbers __attribute__((vector_size(sizeof(vec))));
  numbers first, second;
  for (int i = 0; i < LANES; i++) {
    first[i] = i / D % 2 ? LANES + i - D : i;
    second[i] = first[i] + D;
  }
  return __builtin_shuffle(a, b, first) + __builtin_shuffle(a, b, second);
}

// The sum of every one of so many registers as there are lanes, in their order.
template <int D = 1> inline vec sums_of_each(const vec* v) {
  if constexpr (D == LANES)
    return *v;
  else {
    vec half[LANES / D / 2];
    for (int i = 0; i < LANES / D / 2; i++) half[i] = fold<D>(v[2 * i], v[2 * i + 1]);
    return sums_of_each<2 * D>(half);
  }
}

struct Linear {
  static constexpr int ROWS = 4, OUTPUTS = LANES / ROWS;  // of a block: one register of results

  const float *weight, *bias;  // weight: [outputs][inputs], as torch has it
  int inputs, outputs;         // multiples of LANES

  // OUTPUTS of them, for ROWS rows, or for the last ones.
  void block(const float* x, int rows, int output, float* y) const {
    const float *w = weight + (long)output * inputs, *in[ROWS];
    for (int r = 0; r < ROWS; r++) in[r] = x + (long)(r < rows ? r : rows - 1) * inputs;
    vec products[LANES] = {};
    for (int i = 0; i < inputs; i += LANES) {
      vec line[OUTPUTS];
#pragma GCC unroll 4
      for (int o = 0; o < OUTPUTS; o++) line[o] = load(w + o * inputs + i);
#pragma GCC unroll 4
      for (int r = 0; r < ROWS; r++) {
        const vec factors = load(in[r] + i);
#pragma GCC unroll 4
        for (int o = 0; o < OUTPUTS; o++) products[r * OUTPUTS + o] += factors * line[o];
      }
    }
    const vec sums = sums_of_each(products);
    for (int r = 0; r < rows && r < ROWS; r++)
      for (int o = 0; o < OUTPUTS; o++) {
        const float sum = sums[r * OUTPUTS + o] + bias[output + o];
        y[(long)r * outputs + output + o] = sum < 0.0f ? 0.0f : sum;
      }
  }

  void forward(const float* x, int rows, float* y, int threads) const {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int output = 0; output < outputs; output += OUTPUTS)
      for (int r = 0; r < rows; r += ROWS) block(x + (long)r * inputs, rows - r, output, y + (long)r * outputs);
  }
};

}  // namespace
