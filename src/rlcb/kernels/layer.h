// The shape of a convolution, as one of stride 1.
#pragma once

#include <vector>

#include "vectors.h"

namespace {

// Pictures lie as [samples, height, width, channels]. A filter of twice its stride is one of 2 x 2 taps and stride 1 on
// blocks of stride x stride pixels, each block a pixel of more channels: nothing is moved, only addressed otherwise.
// Bytes are: they become floats, block by block.
struct Layer {
  int height, width, channels, outputs, kernel, stride, pad;
  bool bytes;
  int blocks_high, blocks_wide, depth;  // of the picture in blocks, and the channels of a block
  int out_height, out_width;
  long below, beside;           // floats from a block to its neighbours
  std::vector<long> vector_at;  // floats from a block to each vector of its channels
  std::vector<long> filter_at;  // floats from a filter to the first tap of each channel of a block
  long sample, out_sample;      // floats

  explicit Layer(const int* shape)
      : height(shape[0]), width(shape[1]), channels(shape[2]), outputs(shape[3]), kernel(shape[4]), stride(shape[5]),
        pad(shape[6]), bytes(shape[7]) {
    out_height = (height + 2 * pad - kernel) / stride + 1;
    out_width = (width + 2 * pad - kernel) / stride + 1;
    blocks_high = stride == 1 ? height : out_height + 1;
    blocks_wide = stride == 1 ? width : out_width + 1;
    depth = channels * stride * stride;
    out_sample = (long)out_height * out_width * outputs;
    for (int v = 0; v < depth; v++) {
      const int c = v % channels, dx = v / channels % stride, dy = v / channels / stride;
      filter_at.push_back(((long)c * kernel + dy) * kernel + dx);
      if (v % LANES == 0) vector_at.push_back(bytes ? v : ((long)dy * width + dx) * channels + c);
    }
    beside = bytes ? depth : (long)stride * channels;
    below = bytes ? (long)blocks_wide * depth : (long)stride * width * channels;
    sample = bytes ? blocks_high * below : (long)height * width * channels;
  }

  // Floats from the first tap of a channel to another one.
  long tap_at(int a, int b) const { return (long)(a * kernel + b) * stride; }
  long filter_size() const { return (long)channels * kernel * kernel; }

  // Sample `s` as floats; those of bytes in `room`, which is used again for the next.
  const float* pixels(const void* x, long s, float* room) const {
    if (!bytes) return static_cast<const float*>(x) + s * sample;
    unpack(static_cast<const uint8_t*>(x) + s * height * width * channels, room);
    return room;
  }

 private:
  typedef uint32_t words __attribute__((vector_size(16)));
  typedef uint8_t sixteen __attribute__((vector_size(16)));
  typedef int32_t integers __attribute__((vector_size(64)));
  typedef float floats __attribute__((vector_size(64)));

  // Four pixels of three bytes.
  struct Words {
    uint32_t at[3];
    explicit Words(const uint8_t* from) { std::memcpy(at, from, sizeof at); }
  };

  // Blocks of 4 x 4 pixels: 48 bytes of four rows.
  void unpack(const uint8_t* x, float* out) const {
    const long row = (long)width * 3;
    for (int by = 0; by < blocks_high; by++)
      for (int bx = 0; bx < blocks_wide; bx++, out += 48) {
        const uint8_t* from = x + by * 4 * row + bx * 12;
        const Words a(from), b(from + row), c(from + 2 * row), d(from + 3 * row);
        const words parts[3] = {{a.at[0], a.at[1], a.at[2], b.at[0]},
                                {b.at[1], b.at[2], c.at[0], c.at[1]},
                                {c.at[2], d.at[0], d.at[1], d.at[2]}};
        for (int i = 0; i < 3; i++) {
          // Not at once: the compiler would convert byte by byte.
          const floats f = __builtin_convertvector(__builtin_convertvector((sixteen)parts[i], integers), floats);
          std::memcpy(out + 16 * i, &f, sizeof f);
        }
      }
  }
};

}  // namespace
