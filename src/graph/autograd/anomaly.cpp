// Anomaly mode: evaluates every operation when it is called and reports the first NaN.
#include <fmt/format.h>

#include "graph/record/observer.h"
#include "graph/record/tape_extras.h"
#include "volta/autograd.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta {
namespace graph {
namespace {

// While alive, this thread has no observer, so that the observer's own operations are not checked.
class WithoutObserver {
 public:
  WithoutObserver() : before_(std::exchange(recording_observer(), nullptr)) {}
  ~WithoutObserver() { recording_observer() = before_; }
  WithoutObserver(const WithoutObserver&) = delete;
  WithoutObserver& operator=(const WithoutObserver&) = delete;

 private:
  RecordingObserver* before_;
  NoGrad no_grad_;
};

std::int64_t nan_count(const Tensor& value) {
  if (!is_floating(value.dtype())) return 0;
  return value.ne(value).sum().item<std::int64_t>();
}

// A user's function has its own name.
const char* name_of(const Tape& tape) {
  const bool custom = tape.extras && tape.extras->custom;
  return custom ? tape.extras->custom->function->name.c_str() : op_info(tape.op).name;
}

class NanFinder final : public RecordingObserver {
 public:
  void recorded(OpId op, std::span<const Borrowed> inputs, Tensor& result,
                SourceLocation place) override {
    const WithoutObserver unobserved;
    const std::int64_t count = nan_count(result);
    if (count == 0) return;
    for (const Borrowed& input : inputs) {
      if (nan_count(input.tensor()) > 0) return;
    }
    throw NanError(fmt::format("{} ({}:{}) made the first NaN: {} of {} elements of {}",
                               op_info(op).name, place.file(), place.line(), count, result.numel(),
                               to_string(result.shape())));
  }

  void differentiated(const Tape& tape, std::size_t input, Tensor& gradient) override {
    const WithoutObserver unobserved;
    const std::int64_t count = nan_count(gradient);
    if (count == 0) return;
    throw NanError(fmt::format(
        "the gradient of {} ({}:{}) made the first NaN: {} of {} elements of input {}'s gradient "
        "{}",
        name_of(tape), tape.place.file(), tape.place.line(), count, gradient.numel(), input,
        to_string(gradient.shape())));
  }
};

}  // namespace

RecordingObserver*& recording_observer() { return recording_state.observer; }

void exchange_result(Tensor& result, const Tensor& value) {
  TensorAccess::variable(result)->node = TensorAccess::variable(value)->node;
}

}  // namespace graph

struct AnomalyMode::State {
  graph::NanFinder finder;
  graph::RecordingObserver* previous;
};

AnomalyMode::AnomalyMode() : state_(std::make_unique<State>()) {
  state_->previous = std::exchange(graph::recording_observer(), &state_->finder);
}
AnomalyMode::~AnomalyMode() { graph::recording_observer() = state_->previous; }

}  // namespace volta
