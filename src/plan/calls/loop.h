// A loop: what an operation computes step by step, as one value whose operands are in memory and
// whose results are whole sequences. The steps of an iteration are planned once, as a graph of
// their own (LoopBody), and run as often as the loop has iterations.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plan/calls/call.h"

namespace volta::plan {

// The memory that the iterations of a loop read or write: a part of an operand or result, `stride`
// bytes further on in each iteration; or a carried value, which an iteration leaves to the next.
struct LoopSlice {
  enum class Kind : std::uint8_t { Operand, Result, Carried };
  Kind kind = Kind::Operand;
  int number = 0;
  Extent start = 0, stride = 0;  // bytes; `start` is the first iteration's part of the whole loop
  // Of a leaf: how its axes are walked, in elements; none: they follow one another.
  std::vector<Extent> strides = {};
};

// Some iterations of a loop: the values of one of them.
struct LoopBody {
  Extent first = 0, count = 1;  // iterations, counted from the loop's first one
  Graph graph = {};
  std::vector<LoopSlice> leaves;   // by the number of a Leaf
  std::vector<LoopSlice> results;  // of each of the graph's results: where it goes
};

// The iterations of a loop: the first and the last have bodies of their own, because a state that
// is not given is left out of the first one, and final values are results of the last one.
struct LoopBodies {
  std::vector<LoopBody> bodies;
  std::vector<Extent> carried;  // for each carried value, its bytes
};
// Vectors are loaded from multiples of this, in bytes.
inline constexpr std::int64_t kLoopAlignment = 16;

class BodyWriter;

// What some operation computes in a loop. Operands, results and carried values are numbered from 0
// for each part.
struct LoopedPart {
  int operands = 0, results = 0, carried = 0;
  const char* label = "";
  // Writes the values of an iteration.
  std::function<void(BodyWriter&)> write;
};

// A loop of the graph: the operations whose iterations it runs side by side.
struct Loop {
  Extent length;
  std::vector<LoopedPart> parts;
  // Loops with equal texts and lengths have equal kernels, so running them side by side merges
  // them.
  std::string text;

  int operands() const;
  int results() const;
  // The bodies, given which results are wanted.
  LoopBodies bodies(const std::vector<bool>& wanted, const DeviceEntry& device,
                    Expansion (*expansion_of)(graph::OpId)) const;
};

// A sequence [length, ...] as a loop walks it: forwards or backwards.
struct Walked {
  Extent length;
  bool backwards = false;
};

// Writes the values of one iteration. `l` builds them; it has no node, so that only its builders
// may be used.
class BodyWriter {
 public:
  Lowering& l;
  const bool is_first, is_last;

  // The iteration's step of an operand, [shape]; `ahead` steps further on, or back.
  Expr step_of(int operand, const Walked& walked, const Shape& shape, DType dtype, int ahead = 0);
  // The iteration's step, [batch, size], of an operand [batch, length, size].
  Expr step_of_turned(int operand, const Walked& walked, const Shape& shape, DType dtype);
  // An operand that all iterations read as a whole.
  Expr whole(int operand, const Shape& shape, DType dtype);
  // The step of a result that the iteration before has written.
  Expr previous(int result, const Walked& walked, const Shape& shape, DType dtype);
  // A carried value of the iteration before.
  Expr carried(int number, const Shape& shape, DType dtype);

  bool wants(int result) const;
  // The value is the iteration's step of a result. A placed value, or a join of them, is written
  // where the result lies and may be read by the iteration.
  void write(int result, const Walked& walked, Expr value);
  // The value is the whole result; once in a loop.
  void write_whole(int result, Expr value);
  void carry(int number, Expr value);

 private:
  friend struct Loop;
  BodyWriter(Lowering& lowering, LoopBody& body, LoopBodies& loop, const std::vector<bool>& wanted,
             bool first, bool last)
      : l(lowering), is_first(first), is_last(last), body_(body), loop_(loop), wanted_(wanted) {}
  Expr leaf(LoopSlice slice, const Shape& shape, DType dtype);
  void result(LoopSlice slice, Expr value);
  LoopSlice slice(LoopSlice::Kind kind, int number, const Walked& walked, const Shape& shape,
                  DType dtype, int ahead) const;

  LoopBody& body_;
  LoopBodies& loop_;
  const std::vector<bool>& wanted_;
  const LoopedPart* part_ = nullptr;
  int operand_ = 0, result_ = 0, carried_ = 0;  // the part's first ones in the loop
};

const Call& loop_call();
bool is_loop(const Value& value);

// A result of a loop: its dtype and shape.
using LoopResult = std::pair<DType, Shape>;
// Adds a loop to the graph; its results. The first one has memory whether it is wanted or not, so
// it had better be small or always wanted.
std::vector<Expr> loop(Lowering& lowering, Extent length, LoopedPart part, std::string text,
                       std::vector<Expr> operands, const std::vector<LoopResult>& results);

}  // namespace volta::plan
