// Draws random programs; shared by the files that implement this.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "random_graph/random_graph_evaluator.h"
#include "random_graph/random_graph_generator.h"

namespace volta::random_graph {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0xD1342543DE82EF95u + 0x2545F4914F6CDD1Du) {}
  std::uint64_t word() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1Du;
  }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>((word() >> 11) % static_cast<std::uint64_t>(n));
  }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(below(static_cast<std::int64_t>(from.size())))];
  }

 private:
  std::uint64_t state_;
};

class Generator {
 public:
  Generator(std::uint64_t seed, const GeneratorOptions& options)
      : random_(seed + 1), options_(options) {
    program_.seed = seed;
    program_.statements.reserve(256);
  }
  Program run();

 private:
  using Draw = bool (Generator::*)();
  struct Kind {
    int weight;
    Draw draw;
  };

  // ---- Drawing.
  Dims some_dims();
  DType some_float();
  Number some_number();
  int some(const std::function<bool(const Variable&)>& wanted);
  int some_floating();
  int some_tensor() {
    return some([](const Variable&) { return true; });
  }
  const Array& value_of(int id) const { return reference_.tensor(id)->value; }
  std::int64_t some_axis(const Array& x) { return random_.below(x.rank()); }
  bool emit(Statement s);
  int leaf(const Dims& dims, DType dtype, Fill fill, bool grad);
  int ids_below(std::int64_t n, const Dims* dims);
  int new_ids(std::int64_t n, const Dims& dims);
  bool acceptable(const Array& x) const;

  bool draw_leaf();
  bool draw_unary();
  bool draw_binary();
  bool draw_where();
  bool draw_copy();
  bool draw_view();
  bool draw_reduction();
  bool draw_concat();
  bool draw_softmax();
  bool draw_matmul();
  bool draw_linear();
  bool draw_embedding();
  bool draw_cumsum();
  bool draw_order();
  bool draw_take_along();
  bool draw_index_add();
  bool draw_layer_norm();
  bool draw_dropout();
  bool draw_loss();
  bool draw_in_place();
  bool draw_backward();
  bool draw_gradient();
  bool draw_update();
  bool draw_drop();
  bool draw_look();

  Random random_;
  GeneratorOptions options_;
  Program program_;
  Evaluator reference_{program_};
  Dims extents_;
  std::int64_t most_elements_ = 3000;
  DType main_ = DType::f32;
  bool gradients_ = false;
  int next_ = 0;
};

}  // namespace volta::random_graph
