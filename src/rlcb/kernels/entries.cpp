// Entries for Python. Shapes: height, width, channels, outputs, kernel, stride, pad, bytes (see layer.h).
#include <cmath>

#include "linear.h"
#include "pooling.h"
#include "stem.h"
#include "winograd.h"

namespace {

template <class Do> void choose(const Layer& layer, int samples, Do with) {
  if (layer.stride == 1)
    with(Winograd<6, 3>(layer, samples));
  else if (layer.out_height % 5 == 0)
    with(Winograd<6, 2>(layer, samples));
  else
    with(Winograd<4, 2>(layer, samples));
}

}  // namespace

extern "C" long convolution_filters(const int* shape, const float* weight, float scale, float* filters) {
  const Layer layer(shape);
  long size = 0;
  choose(layer, 0, [&](const auto& with) {
    size = with.filters_size();
    if (filters) with.template transform_filters<false>(weight, scale, filters);
  });
  return size;
}

extern "C" void convolution_forward(const int* shape, const void* x, const float* weight, const float* bias, float scale,
                                    const float* residual, const float* filters, float* y, int samples, int relu_before,
                                    int relu_after, int threads) {
  const Layer layer(shape);
  const Call call{x, weight, bias, residual, filters, scale, y, samples, threads, relu_before != 0, relu_after != 0};
  choose(layer, samples, [&](const auto& with) { with.forward(call); });
}

extern "C" void convolution_backward(const int* shape, const void* x, const float* weight, float scale, const float* y,
                                     const float* dy, const float* more, float* dx, float* dweight, float* dbias,
                                     int samples, int parts, int relu_before, int relu_after, int threads) {
  const Layer layer(shape);
  const Call call{x, weight, nullptr, nullptr, nullptr, scale, const_cast<float*>(y), samples, threads, relu_before != 0, relu_after != 0};
  const CallBack back{dy, more, dx, dweight, dbias, parts};
  choose(layer, samples, [&](const auto& with) { with.backward(call, back); });
}

extern "C" void stem_forward(int height, int width, const uint8_t* x, const float* weight, const float* bias, float scale,
                             float* y, uint8_t* winner, int samples, int threads) {
  Stem(height, width).forward(x, weight, bias, scale, y, winner, samples, threads);
}

extern "C" void stem_backward(int height, int width, const uint8_t* x, float scale, const float* dy, const uint8_t* winner,
                              float* dweight, float* dbias, int samples, int parts, int threads) {
  Stem(height, width).backward(x, scale, dy, winner, dweight, dbias, samples, parts, threads);
}

extern "C" void pool_forward(int height, int width, int channels, const float* x, float* y, uint8_t* winner, int samples,
                             int threads) {
  const long row = (long)width * channels;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int r = 0; r < samples * height / 2; r++) {
    const float* middle = x + 2 * r * row;
    const float* around[3] = {r % (height / 2) ? middle - row : nullptr, middle, middle + row};
    pool_row(around, width, channels, y + r * row / 2, winner + r * row / 2);
  }
}

extern "C" void pool_backward(int height, int width, int channels, const float* dy, const uint8_t* winner, float* dx,
                              int samples, int threads) {
  const long row = (long)width * channels;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (int s = 0; s < samples; s++) {
    std::memset(dx + s * height * row, 0, height * row * sizeof(float));
    for (int r = s * height / 2; r < (s + 1) * height / 2; r++) {
      float* middle = dx + 2 * r * row;
      float* around[3] = {r % (height / 2) ? middle - row : nullptr, middle, middle + row};
      pool_row_back(dy + r * row / 2, winner + r * row / 2, width, channels, around);
    }
  }
}

extern "C" void linear_forward(const float* x, const float* weight, const float* bias, float* y, int rows, int inputs,
                               int outputs, int threads) {
  Linear{weight, bias, inputs, outputs}.forward(x, rows, y, threads);
}

// RMSProp as torch's, in one pass over the memory instead of five. What other processes add meanwhile stays or is lost,
// number by number.
extern "C" void rmsprop(float* weights, const float* gradients, float* squares, long size, float rate, float decay,
                        float epsilon) {
  for (long i = 0; i < size; i++) {
    const float square = squares[i] * decay + gradients[i] * gradients[i] * (1 - decay);
    squares[i] = square;
    weights[i] -= rate * gradients[i] / (std::sqrt(square) + epsilon);
  }
}
