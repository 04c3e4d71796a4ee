// The first layer of the residual network as one: 3 x 3 taps on three bytes a pixel, 16 outputs, and pooling at once,
// so that the largest picture of the network never leaves the cache. With so few channels, each tap is simply added up.
#pragma once

#include "pooling.h"

namespace {

class Stem {
  static constexpr int IN = 3, OUT = 16, WEIGHTS = TAPS * IN, PIXELS = 8;  // PIXELS: computed side by side
  static constexpr int VECTORS = OUT / LANES;

  const int height, width;
  const long padded_row, row;  // floats

 public:
  Stem(int h, int w) : height(h), width(w), padded_row((long)(w + 2) * IN), row((long)w * OUT) {}

  void forward(const uint8_t* x, const float* weight, const float* bias, float scale, float* y, uint8_t* winner, int samples,
               int threads) const {
    float* taps = scratch(0, WEIGHTS * OUT);
    for (int o = 0; o < OUT; o++)
      for (int i = 0; i < WEIGHTS; i++) taps[i * OUT + o] = weight[o * WEIGHTS + from_torch(i)] * scale;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int s = 0; s < samples; s++) {
      float *pixels = scratch(1, (height + 2) * padded_row), *ring = scratch(2, 3 * row);
      pad(x + (long)s * height * width * IN, pixels);
      const long out_row = row / 2;
      for (int r = 0; r < height; r++) {
        convolve_row(pixels + r * padded_row, taps, bias, ring + r % 3 * row);
        if (r % 2) {
          const float* around[3] = {r > 1 ? ring + (r - 2) % 3 * row : nullptr, ring + (r - 1) % 3 * row, ring + r % 3 * row};
          const long at = ((long)s * height / 2 + r / 2) * out_row;
          pool_row(around, width, OUT, y + at, winner + at);
        }
      }
    }
  }

  void backward(const uint8_t* x, float scale, const float* dy, const uint8_t* winner, float* dweight, float* dbias,
                int samples, int parts, int threads) const {
    constexpr int EACH = (WEIGHTS + 1) * OUT;
    float* sums = scratch(0, samples * EACH);  // so small that every sample has its own
    std::memset(sums, 0, samples * EACH * sizeof(float));
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int s = 0; s < samples; s++) {
      float *pixels = scratch(1, (height + 2) * padded_row), *gradients = scratch(2, height * row);
      pad(x + (long)s * height * width * IN, pixels);
      std::memset(gradients, 0, height * row * sizeof(float));
      for (int r = 0; r < height / 2; r++) {
        float* middle = gradients + 2 * r * row;
        float* around[3] = {r > 0 ? middle - row : nullptr, middle, middle + row};
        const long at = ((long)s * height / 2 + r) * row / 2;
        pool_row_back(dy + at, winner + at, width, OUT, around);
      }
      for (int r = 0; r < height; r++) add_row(pixels + r * padded_row, gradients + r * row, sums + s * EACH);
    }
    const int of_part = samples / parts;
    for (int p = 0; p < parts; p++) {
      float* part = sums + p * of_part * EACH;
      add_up(part, of_part, EACH, EACH);
      for (int i = 0; i < WEIGHTS * OUT; i++) part[i] *= scale;
    }
    add_up(sums, parts, EACH, of_part * EACH);
    for (int o = 0; o < OUT; o++) {
      for (int i = 0; i < WEIGHTS; i++) dweight[o * WEIGHTS + from_torch(i)] = sums[i * OUT + o];
      dbias[o] = sums[WEIGHTS * OUT + o];
    }
  }

 private:
  // Ours are [tap][channel], torch's [channel][tap].
  static int from_torch(int i) { return i % IN * TAPS + i / IN; }

  void pad(const uint8_t* x, float* pixels) const {
    std::memset(pixels, 0, (height + 2) * padded_row * sizeof(float));
    for (int r = 0; r < height; r++) {
      float* to = pixels + (r + 1) * padded_row + IN;
      for (int i = 0; i < width * IN; i++) to[i] = x[(long)r * width * IN + i];
    }
  }

  // Row `r` of outputs from the padded rows r, r + 1 and r + 2.
  void convolve_row(const float* pixels, const float* taps, const float* bias, float* out) const {
    for (int x = 0; x < width; x += PIXELS)
      for (int v = 0; v < VECTORS; v++) {
        vec sums[PIXELS];
        for (int p = 0; p < PIXELS; p++) sums[p] = load(bias + v * LANES);
        for (int dy = 0; dy < 3; dy++)
          for (int i = 0; i < 3 * IN; i++) {
            const vec tap = load(taps + (dy * 3 * IN + i) * OUT + v * LANES);
            const float* from = pixels + dy * padded_row + x * IN + i;
#pragma GCC unroll 8
            for (int p = 0; p < PIXELS; p++) sums[p] += tap * every(from[p * IN]);
          }
        for (int p = 0; p < PIXELS; p++) store(out + (long)(x + p) * OUT + v * LANES, sums[p]);
      }
  }

  void add_row(const float* pixels, const float* gradients, float* sums) const {
    for (int v = 0; v < VECTORS; v++) {
      for (int dy = 0; dy < 3; dy++) {
        float* to = sums + dy * 3 * IN * OUT + v * LANES;
        vec taps[3 * IN];
#pragma GCC unroll 9
        for (int i = 0; i < 3 * IN; i++) taps[i] = load(to + i * OUT);
        for (int x = 0; x < width; x++) {
          const vec gradient = load(gradients + (long)x * OUT + v * LANES);
          const float* from = pixels + dy * padded_row + x * IN;
#pragma GCC unroll 9
          for (int i = 0; i < 3 * IN; i++) taps[i] += gradient * every(from[i]);
        }
#pragma GCC unroll 9
        for (int i = 0; i < 3 * IN; i++) store(to + i * OUT, taps[i]);
      }
      float* bias = sums + WEIGHTS * OUT + v * LANES;
      vec sum = load(bias);
      for (int x = 0; x < width; x++) sum += load(gradients + (long)x * OUT + v * LANES);
      store(bias, sum);
    }
  }
};

}  // namespace
