// The reference: computes every statement by itself in double precision, with variables, aliases,
// in-place assignment and gradients as users see them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "random_graph/random_graph_array.h"
#include "random_graph/random_graph_program.h"

namespace volta::random_graph {

struct Tape;
struct Variable;
using TapeRef = std::shared_ptr<Tape>;
using Ref = std::shared_ptr<Variable>;

struct Variable {
  Array value;
  bool requires_grad = false;
  TapeRef tape;
  Ref grad;
};

// The destination of an input's gradient.
struct Edge {
  TapeRef tape;
  Ref leaf;
  Dims dims;
  DType dtype = DType::f32;
  bool wanted() const { return tape != nullptr || leaf != nullptr; }
};

// The gradients of the inputs for a gradient of the output; empty for inputs without gradient.
using Pulled = std::vector<std::optional<Array>>;
using Pull = std::function<Pulled(const Array&)>;

struct Tape {
  std::uint64_t sequence = 0;
  std::vector<Edge> edges;
  Pull pull;
  bool consumed = false;
  std::optional<Array> gradient;
};

// The results of a sort.
struct Ordered {
  Ref values, positions;
};

// The options that optimizers run with.
inline constexpr double kMomentum = 0.9, kWeightDecay = 0.01, kBeta1 = 0.9, kBeta2 = 0.99,
                        kAdamEps = 1e-2;

// The values of a `data` statement in a round, which its dtype represents exactly.
std::vector<double> data_values(const Program& program, const Statement& statement, int round);
std::uint64_t seed_of_round(const Program& program, int round);

class Evaluator {
 public:
  // `wrong` falsifies the results of one operation, for the test of this test.
  explicit Evaluator(const Program& program, std::optional<Op> wrong = std::nullopt)
      : program_(&program), wrong_(wrong) {}

  void begin_round(int round);
  // Throws Invalid if the statement cannot be run now, before anything has changed.
  void step(const Statement& statement, std::size_t position);
  // Drops tensors that are no longer held; persistent ones stay.
  void end_round();

  const Ref& tensor(int id) const;  // null if it is not held
  int tensors() const { return static_cast<int>(tensors_.size()); }
  void set_tensor(int id, Ref ref);
  // The position in the stream of random numbers.
  std::uint64_t random_offset() const { return offset_; }
  void set_random_offset(std::uint64_t offset) { offset_ = offset; }

 private:
  const Ref& input(const Statement& s, std::size_t i) const;
  Ref made(const Statement& s);
  Ref created(const Statement& s);
  Ref operand(const Statement& s, std::size_t i, DType beside, bool divides) const;
  Ref binary_of(const Statement& s);
  Ref where_of(const Statement& s);
  Ref network(const Statement& s);
  Ordered ordered(const Statement& s);
  void assign_in_place(const Statement& s);
  void update_parameters(const Statement& s, std::size_t position);
  std::uint64_t take_random(std::int64_t words);

  const Program* program_;
  std::optional<Op> wrong_;
  int round_ = 0;
  std::uint64_t seed_ = 0, offset_ = 0;
  std::vector<Ref> tensors_;
  std::map<std::size_t, std::vector<Array>> moments_;  // for each optimizer's statement
};

// ---- Operations with history (random_graph_gradients.cpp).
class GradMode {  // like NoGrad, as long as it lives
 public:
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;
  static bool enabled();

 private:
  bool previous_;
};

Ref constant(Array value);
Ref recorded(Array value, const std::vector<Ref>& inputs, Pull pull);
void run_backward(const Ref& root, const Array& gradient, bool retain_graph);

Ref unary(Op op, const Ref& x);
Ref binary(Op op, const Ref& a, const Ref& b);  // dtypes promote
Ref where(const Ref& condition, const Ref& a, const Ref& b);
Ref cast(const Ref& x, DType dtype);
Ref clone(const Ref& x);
Ref reshape(const Ref& x, const Dims& dims);
Ref permute(const Ref& x, const Dims& order);
Ref expand(const Ref& x, const Dims& dims);
Ref narrow(const Ref& x, int axis, std::int64_t start, std::int64_t length);
Ref pad(const Ref& x, const Dims& before, const Dims& after, double value);
Ref sum(const Ref& x, const Dims& axes, bool keepdim);
Ref mean(const Ref& x, const Dims& axes, bool keepdim);
Ref softmax(const Ref& x, int axis);
Ref log_softmax(const Ref& x, int axis);
Ref matmul(const Ref& a, const Ref& b);
Ref linear(const Ref& x, const Ref& weight, const Ref& bias);
Ref embedding(const Ref& table, const Ref& ids);
Ref layer_norm(const Ref& x, int axes, const Ref& weight, const Ref& bias, double eps);
Ref dropout(const Ref& x, const Array& uniform, double p);
Ref mse_loss(const Ref& input, const Ref& target, int reduction);
Ref cross_entropy(const Ref& logits, const Ref& labels, int reduction);

// ---- More operations (random_graph_reductions.cpp).
// With `first`, along one axis, the first of equal elements gets the gradient; otherwise they share
// it.
Ref extremum(const Ref& x, const Dims& axes, bool keepdim, bool largest, bool first);
Ref prod(const Ref& x, const Dims& axes, bool keepdim);
Ref stride(const Ref& x, const Dims& steps);
Ref concat(const std::vector<Ref>& parts, int axis);
Array argmin(const Array& x, int axis, bool keepdim);

// ---- Operations along an axis (random_graph_order.cpp).
Ref cumsum(const Ref& x, int axis);
// The first `count` elements in order.
Ordered sort(const Ref& x, int axis, std::int64_t count, bool descending);
Ref take_along_axis(const Ref& x, const Ref& index, int axis);
Ref index_add(const Ref& x, const Ref& index, const Ref& source);

}  // namespace volta::random_graph
