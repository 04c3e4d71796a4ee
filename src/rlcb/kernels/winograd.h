// A convolution by Winograd's minimal filtering in two dimensions: tiles of P x P pixels that overlap by R - 1 become
// P x P points; at each point, channels of all tiles are multiplied by filters; the result becomes M x M outputs.
// 3 x 3 filters on 6 x 6 points need a quarter of the multiplications, 2 x 2 ones on 4 x 4 points 4 of 9.
#pragma once

#include <algorithm>

#include "layer.h"
#include "product.h"
#include "transforms.h"

namespace {

constexpr int TILES_AT_ONCE = 48;  // so many that a product is worth it, so few that they stay in the cache
constexpr long MOST_SHARING = 16;  // threads that work on one part of a gradient, but fewer where the sums that each
constexpr long SUMS_PER_SAMPLE = 1 << 12;  // begins for itself would be large beside its samples

struct Call {
  const void* x;
  const float *weight, *bias, *residual;  // residual: added to the output, where given
  const float* filters;                   // the weights transformed before; null: they are transformed now
  float scale;                            // of the weights
  float* y;
  int samples, threads;
  bool relu_before, relu_after;
};

struct CallBack {
  const float *dy, *more;  // more: added to dx, where given
  float *dx, *dweight, *dbias;
  int parts;  // as many samples each; the gradients of every part are computed by themselves, then added up
};

template <int P, int R> class Winograd {
  static constexpr int M = P - R + 1, POINTS = P * P;
  using T = Points<P>;

  const Layer& l;
  const int high, wide, tiles;  // tiles: of a sample
  const int group, groups;      // samples that are worked on together
  const long x_step, y_step;    // floats between points: all tiles of a group, and a bit, or all points would meet in
  const long u_step;            // the same lines of the cache

 public:
  Winograd(const Layer& layer, int samples)
      : l(layer), high((l.out_height + M - 1) / M), wide((l.out_width + M - 1) / M), tiles(high * wide),
        group(std::max(1, TILES_AT_ONCE / tiles)), groups((samples + group - 1) / group),
        x_step((long)group * tiles * l.depth + LANES), y_step((long)group * tiles * l.outputs + LANES),
        u_step((long)l.depth * l.outputs) {}

  long filters_size() const { return POINTS * u_step; }

  // [point][depth][outputs], or [point][outputs][depth] for the way back
  template <bool BACK> void transform_filters(const float* weight, float scale, float* filters) const {
    const int lines = BACK ? l.outputs : l.depth, line = BACK ? l.depth : l.outputs;
    for (int i = 0; i < lines; i++)
      for (int j = 0; j < line; j += LANES) {
        vec taps[R][R], half[P][R];
        for (int lane = 0; lane < LANES; lane++) {
          const float* from =
              weight + (BACK ? i * l.filter_size() + l.filter_at[j + lane] : (j + lane) * l.filter_size() + l.filter_at[i]);
          for (int a = 0; a < R; a++)
            for (int b = 0; b < R; b++) taps[a][b][lane] = from[l.tap_at(a, b)];
        }
        for (int p = 0; p < P; p++)
          for (int b = 0; b < R; b++) {
            half[p][b] = vec{};
            for (int a = 0; a < R; a++) half[p][b] += scale * T::template filter<R>(p, a) * taps[a][b];
          }
        for (int p = 0; p < P; p++)
          for (int q = 0; q < P; q++) {
            vec sum{};
            for (int b = 0; b < R; b++) sum += T::template filter<R>(q, b) * half[p][b];
            store(filters + (p * P + q) * u_step + (long)i * line + j, sum);
          }
      }
  }

  void forward(const Call& call) const {
    const float* filters = call.filters;
    if (!filters) {
      float* room = scratch(0, filters_size());
      transform_filters<false>(call.weight, call.scale, room);
      filters = room;
    }
#pragma omp parallel for num_threads(call.threads) schedule(static)
    for (int g = 0; g < groups; g++) {
      float *points = scratch(1, POINTS * x_step), *products = scratch(2, POINTS * y_step), *room = scratch(3, l.sample);
      const int first = g * group, last = std::min(call.samples, first + group);
      for (int s = first; s < last; s++) transform_data(call, l.pixels(call.x, s, room), points, (s - first) * tiles);
      for (int p = 0; p < POINTS; p++)
        multiply<false>((last - first) * tiles, l.outputs, l.depth, points + p * x_step, l.depth, 1, filters + p * u_step,
                        products + p * y_step);
      for (int s = first; s < last; s++) transform_output(call, s, products, (s - first) * tiles);
    }
  }

  void backward(const Call& call, const CallBack& back) const {
    float* filters = scratch(0, filters_size());
    if (back.dx) transform_filters<true>(call.weight, call.scale, filters);
    const int of_part = call.samples / back.parts, groups_of_part = (of_part + group - 1) / group;
    const long each = POINTS * u_step + l.outputs, result = l.outputs * (l.filter_size() + 1);  // filters and bias
    // Threads may share a part, but how it is cut does not depend on how many there are.
    int sharing = 1;
    while (2 * sharing <= std::min<long>({MOST_SHARING, groups_of_part, SUMS_PER_SAMPLE * of_part / each})) sharing *= 2;
    float *sums = scratch(4, back.parts * sharing * each), *results = scratch(5, back.parts * result);
#pragma omp parallel for num_threads(call.threads) schedule(static)
    for (int s = 0; s < back.parts * sharing; s++) {
      float* mine = sums + s * each;
      std::memset(mine, 0, each * sizeof(float));
      const int begin = s / sharing * of_part, end = begin + of_part, share = s % sharing;
      for (int g = share * groups_of_part / sharing; g < (share + 1) * groups_of_part / sharing; g++) {
        const int first = begin + g * group, last = std::min(end, first + group);
        group_backward(call, back, filters, mine, mine + POINTS * u_step, first, last);
      }
    }
#pragma omp parallel for num_threads(call.threads) schedule(static)
    for (int p = 0; p < back.parts; p++) {
      float *part = sums + p * sharing * each, *gradients = results + p * result;
      add_up(part, sharing, each, each);
      filters_back(part, call.scale, gradients);
      std::memcpy(gradients + result - l.outputs, part + POINTS * u_step, l.outputs * sizeof(float));
    }
    add_up(results, back.parts, result, result);
    std::memcpy(back.dweight, results, (result - l.outputs) * sizeof(float));
    std::memcpy(back.dbias, results + result - l.outputs, l.outputs * sizeof(float));
  }

 private:
  void group_backward(const Call& call, const CallBack& back, const float* filters, float* dfilters, float* dbias, int first,
                      int last) const {
    float *points = scratch(1, POINTS * x_step), *products = scratch(2, POINTS * y_step), *room = scratch(3, l.sample);
    const int rows = (last - first) * tiles;
    for (int s = first; s < last; s++) {
      transform_data(call, l.pixels(call.x, s, room), points, (s - first) * tiles);
      output_back(call, back.dy, s, products, (s - first) * tiles, dbias);
    }
    for (int p = 0; p < POINTS; p++) {
      float *at = points + p * x_step, *product = products + p * y_step;
      multiply<true>(l.depth, l.outputs, rows, at, 1, l.depth, product, dfilters + p * u_step);
      if (back.dx) multiply<false>(rows, l.depth, l.outputs, product, l.outputs, 1, filters + p * u_step, at);
    }
    if (back.dx)
      for (int s = first; s < last; s++) data_back(call, back, s, points, (s - first) * tiles);
  }

  void filters_back(const float* dfilters, float scale, float* dweight) const {
    for (int i = 0; i < l.depth; i++)
      for (int j = 0; j < l.outputs; j += LANES) {
        vec half[P][R];
        for (int p = 0; p < P; p++)
          for (int b = 0; b < R; b++) {
            half[p][b] = vec{};
            for (int q = 0; q < P; q++)
              half[p][b] += T::template filter<R>(q, b) * load(dfilters + (p * P + q) * u_step + (long)i * l.outputs + j);
          }
        for (int a = 0; a < R; a++)
          for (int b = 0; b < R; b++) {
            vec sum{};
            for (int p = 0; p < P; p++) sum += scale * T::template filter<R>(p, a) * half[p][b];
            for (int lane = 0; lane < LANES; lane++)
              dweight[(j + lane) * l.filter_size() + l.filter_at[i] + l.tap_at(a, b)] = sum[lane];
          }
      }
  }

  // Where a tile begins, which may be outside of the picture.
  struct Corner {
    const int y, x;
    const long at;
    const bool inside;  // as a whole
    const Layer& l;
    Corner(const Layer& layer, int tile, int wide)
        : y(tile / wide * M - layer.pad), x(tile % wide * M - layer.pad), at(y * layer.below + x * layer.beside),
          inside(y >= 0 && x >= 0 && y + P <= layer.blocks_high && x + P <= layer.blocks_wide), l(layer) {}
    bool has(int i, int j) const {
      return inside || ((unsigned)(y + i) < (unsigned)l.blocks_high && (unsigned)(x + j) < (unsigned)l.blocks_wide);
    }
  };

  // [point][tile][depth]
  void transform_data(const Call& call, const float* x, float* points, int first) const {
    for (int tile = 0; tile < tiles; tile++) {
      const Corner corner(l, tile, wide);
      float* out = points + (long)(first + tile) * l.depth;
      for (size_t v = 0; v < l.vector_at.size(); v++, out += LANES) {
        const float* from = x + corner.at + l.vector_at[v];
        vec half[P][P];
        for (int j = 0; j < P; j++) {
          vec line[P], t[P];
          for (int i = 0; i < P; i++) {
            line[i] = corner.has(i, j) ? load(from + i * l.below + j * l.beside) : vec{};
            if (call.relu_before) line[i] = positive_part(line[i]);
          }
          T::data(line, t);
          for (int i = 0; i < P; i++) half[i][j] = t[i];
        }
        for (int i = 0; i < P; i++) {
          vec t[P];
          T::data(half[i], t);
          for (int j = 0; j < P; j++) store(out + (i * P + j) * x_step, t[j]);
        }
      }
    }
  }

  void data_back(const Call& call, const CallBack& back, int s, const float* points, int first) const {
    float* dx = back.dx + s * l.sample;
    std::memset(dx, 0, l.sample * sizeof(float));
    for (int tile = 0; tile < tiles; tile++) {
      const Corner corner(l, tile, wide);
      const float* from = points + (long)(first + tile) * l.depth;
      for (size_t v = 0; v < l.vector_at.size(); v++, from += LANES) {
        float* out = dx + corner.at + l.vector_at[v];
        vec half[P][P];
        for (int i = 0; i < P; i++) {
          vec line[P];
          for (int j = 0; j < P; j++) line[j] = load(from + (i * P + j) * x_step);
          T::data_back(line, half[i]);
        }
        for (int j = 0; j < P; j++) {
          vec line[P], d[P];
          for (int i = 0; i < P; i++) line[i] = half[i][j];
          T::data_back(line, d);
          for (int i = 0; i < P; i++)
            if (corner.has(i, j)) {
              float* to = out + i * l.below + j * l.beside;
              store(to, load(to) + d[i]);
            }
        }
      }
    }
    const float* x = static_cast<const float*>(call.x) + s * l.sample;
    if (call.relu_before)
      for (long i = 0; i < l.sample; i += LANES) store(dx + i, where_positive(load(x + i), load(dx + i)));
    if (back.more)
      for (long i = 0; i < l.sample; i += LANES) store(dx + i, load(dx + i) + load(back.more + s * l.sample + i));
  }

  // Where the outputs of a tile begin, and how many there are: at the edge, fewer.
  struct Outputs {
    const int height, width;
    const long at;
    Outputs(const Layer& l, int tile, int wide)
        : height(std::min(M, l.out_height - tile / wide * M)), width(std::min(M, l.out_width - tile % wide * M)),
          at(((long)(tile / wide) * M * l.out_width + tile % wide * M) * l.outputs) {}
  };

  void transform_output(const Call& call, int s, const float* products, int first) const {
    float* y = call.y + s * l.out_sample;
    const float* residual = call.residual ? call.residual + s * l.out_sample : nullptr;
    for (int tile = 0; tile < tiles; tile++) {
      const Outputs outputs(l, tile, wide);
      for (int c = 0; c < l.outputs; c += LANES) {
        const float* from = products + (long)(first + tile) * l.outputs + c;
        const vec bias = load(call.bias + c);
        vec half[M][P];
        for (int j = 0; j < P; j++) {
          vec line[P], t[M];
          for (int i = 0; i < P; i++) line[i] = load(from + (i * P + j) * y_step);
          T::template output<M>(line, t);
          for (int i = 0; i < M; i++) half[i][j] = t[i];
        }
        for (int i = 0; i < outputs.height; i++) {
          vec t[M];
          T::template output<M>(half[i], t);
          for (int j = 0; j < M; j++) {
            if (j == outputs.width) break;
            const long at = outputs.at + ((long)i * l.out_width + j) * l.outputs + c;
            vec sum = t[j] + bias;
            if (residual) sum += load(residual + at);
            store(y + at, call.relu_after ? positive_part(sum) : sum);
          }
        }
      }
    }
  }

  // [point][tile][outputs]; adds to dbias
  void output_back(const Call& call, const float* dy, int s, float* products, int first, float* dbias) const {
    dy += s * l.out_sample;
    const float* y = call.y + s * l.out_sample;
    for (int tile = 0; tile < tiles; tile++) {
      const Outputs outputs(l, tile, wide);
      for (int c = 0; c < l.outputs; c += LANES) {
        float* out = products + (long)(first + tile) * l.outputs + c;
        vec sum = load(dbias + c), half[P][M];
        for (int j = 0; j < M; j++) {
          vec line[M], t[P];
          for (int i = 0; i < M; i++) {
            line[i] = vec{};
            if (i < outputs.height && j < outputs.width) {
              const long at = outputs.at + ((long)i * l.out_width + j) * l.outputs + c;
              line[i] = call.relu_after ? where_positive(load(y + at), load(dy + at)) : load(dy + at);
              sum += line[i];
            }
          }
          T::template output_back<M>(line, t);
          for (int i = 0; i < P; i++) half[i][j] = t[i];
        }
        store(dbias + c, sum);
        for (int i = 0; i < P; i++) {
          vec t[P];
          T::template output_back<M>(half[i], t);
          for (int j = 0; j < P; j++) store(out + (i * P + j) * y_step, t[j]);
        }
      }
    }
  }
};

}  // namespace
