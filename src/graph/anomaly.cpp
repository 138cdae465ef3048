// Finding the first NaN: every operation is evaluated at its call and looked at.
#include <fmt/format.h>

#include "graph/tape_extras.h"
#include "volta/autograd.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta {
namespace graph {
namespace {

// Its own operations are not looked at.
class Aside {
 public:
  Aside() : before_(std::exchange(anomaly_mode(), false)) {}
  ~Aside() { anomaly_mode() = before_; }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

 private:
  bool before_;
  NoGrad no_grad_;
};

std::int64_t nan_count(const Tensor& value) {
  if (!is_floating(value.dtype())) return 0;
  return value.ne(value).sum().item<std::int64_t>();
}

}  // namespace

bool& anomaly_mode() {
  static constinit thread_local bool on = false;
  return on;
}

void look_for_nan(OpId op, std::span<const Borrowed> inputs, const Tensor& result, Place place) {
  const Aside aside;
  const std::int64_t count = nan_count(result);
  if (count == 0) return;
  for (const Borrowed& input : inputs) {
    if (nan_count(input.tensor()) > 0) return;
  }
  throw NanError(fmt::format("{} ({}:{}) made the first NaN: {} of {} elements of {}",
                             op_info(op).name, place.file, place.line, count, result.numel(),
                             to_string(result.shape())));
}

void look_for_nan(const Tape& tape, std::size_t input, const Tensor& gradient) {
  const Aside aside;
  const std::int64_t count = nan_count(gradient);
  if (count == 0) return;
  throw NanError(fmt::format(
      "the gradient of {} ({}:{}) made the first NaN: {} of {} elements of input {}'s gradient {}",
      op_info(tape.op).name, tape.place.file, tape.place.line, count, gradient.numel(), input,
      to_string(gradient.shape())));
}

}  // namespace graph

AnomalyMode::AnomalyMode() : previous_(std::exchange(graph::anomaly_mode(), true)) {}
AnomalyMode::~AnomalyMode() { graph::anomaly_mode() = previous_; }

}  // namespace volta
