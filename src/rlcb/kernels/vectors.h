// As many floats as one register of the machine holds, and what is done with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace {

#if defined(__AVX512F__)
constexpr int LANES = 16, REGISTERS = 32;
#else
constexpr int LANES = 8, REGISTERS = 16;
#endif

typedef float vec __attribute__((vector_size(LANES * sizeof(float))));

inline vec load(const float* from) {
  vec v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

inline void store(float* to, vec v) { std::memcpy(to, &v, sizeof v); }

inline vec every(float x) { return x - vec{}; }

// What is not a number stays so: the learner must see it.
inline vec positive_part(vec v) { return v < 0.0f ? vec{} : v; }
inline vec where_positive(vec mask, vec v) { return mask <= 0.0f ? vec{} : v; }

// Memory of the calling thread that lives as long as the thread, by number.
inline float* scratch(int which, size_t floats) {
  static thread_local std::pair<float*, size_t> rooms[8];
  auto& [memory, size] = rooms[which];
  if (size < floats) {
    std::free(memory);
    size = (floats + 15) / 16 * 16;
    memory = static_cast<float*>(std::aligned_alloc(64, size * sizeof(float)));
    if (!memory) std::abort();
  }
  return memory;
}

// Adds up `number` arrays that begin `apart` floats from each other, into the first: neighbours, then neighbours of
// those. Whoever adds up some of them and leaves the rest to others, as processes do, comes to the same bits.
inline void add_up(float* arrays, int number, long size, long apart) {
  for (int step = 1; step < number; step *= 2)
    for (int n = 0; n + step < number; n += 2 * step)
      for (long i = 0; i < size; i++) arrays[n * apart + i] += arrays[(n + step) * apart + i];
}

}  // namespace
