// The largest of 3 x 3 pixels, at every second one, channel by channel.
#pragma once

#include "vectors.h"

namespace {

typedef int32_t ivec __attribute__((vector_size(LANES * sizeof(int32_t))));
typedef uint8_t bvec __attribute__((vector_size(LANES)));

constexpr int TAPS = 9;

// One row of outputs from the three rows around it (null: outside), [width][channels] each. `winner`: which of the nine.
inline void pool_row(const float* const rows[3], int width, int channels, float* y, uint8_t* winner) {
  for (int x = 0; x < width / 2; x++)
    for (int c = 0; c < channels; c += LANES) {
      vec best = every(-__builtin_inff());
      ivec which{};
      for (int tap = 0; tap < TAPS; tap++) {
        const int at = 2 * x + tap % 3 - 1;
        if (!rows[tap / 3] || at < 0 || at >= width) continue;
        const vec value = load(rows[tap / 3] + (long)at * channels + c);
        const ivec better = !(value <= best);  // what is not a number wins
        best = better ? value : best;
        which = better ? tap - ivec{} : which;
      }
      const long out = (long)x * channels + c;
      store(y + out, best);
      const bvec bytes = __builtin_convertvector(which, bvec);
      std::memcpy(winner + out, &bytes, sizeof bytes);
    }
}

// Adds the gradients of one row of outputs to those of the three rows around it.
inline void pool_row_back(const float* dy, const uint8_t* winner, int width, int channels, float* const rows[3]) {
  for (int x = 0; x < width / 2; x++)
    for (int c = 0; c < channels; c += LANES) {
      const long out = (long)x * channels + c;
      const vec gradient = load(dy + out);
      bvec bytes;
      std::memcpy(&bytes, winner + out, sizeof bytes);
      const ivec which = __builtin_convertvector(bytes, ivec);
      for (int tap = 0; tap < TAPS; tap++) {
        const int at = 2 * x + tap % 3 - 1;
        if (!rows[tap / 3] || at < 0 || at >= width) continue;
        float* to = rows[tap / 3] + (long)at * channels + c;
        store(to, load(to) + (which == tap ? gradient : vec{}));
      }
    }
}

}  // namespace
