// Checkpoints: the tape records of a section drop their saved values. When a backward pass reaches
// one of the records, the section is recorded again, and the values saved by the new records move
// into the old ones.
#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "graph/record/generator.h"
#include "graph/record/placing.h"
#include "graph/record/tape_extras.h"
#include "volta/autocast.h"
#include "volta/autograd.h"
#include "volta/error.h"
#include "volta/execution.h"

namespace volta {
namespace graph {

class Recompute {
 public:
  using Fn = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  Recompute(Fn fn, std::vector<Tensor> inputs, GeneratorState random)
      : fn_(std::move(fn)),
        inputs_(std::move(inputs)),
        random_(random),
        options_(execution_options()),
        autocast_(Autocast::dtype()) {}

  // Drops the saved values of the records.
  static void take(const std::shared_ptr<Recompute>& self, std::span<const TapeRef> tapes) {
    for (const TapeRef& tape : tapes) {
      if (tape->extras && (tape->extras->recompute || tape->extras->custom)) {
        // Records of an inner checkpoint or a user's function keep their values.
        self->tapes_.push_back(nullptr);
        continue;
      }
      TapeExtras& extras = extras_of(*tape.get());
      extras.recompute = self;
      extras.number = self->tapes_.size();
      self->tapes_.push_back(tape.get());
      for (Held& saved : tape->saved) saved = Held();
      tape->output = Held();
      tape->auxiliary.clear();
    }
  }

  // Sets the generators that the function drew from, with their states before the first draw.
  void set_drawn(std::vector<StreamPosition> drawn) { drawn_ = std::move(drawn); }

  // The devices on which the section's operations run.
  PlacementTrace& placed() { return placed_; }

  void forget(std::size_t number) { tapes_[number] = nullptr; }

  void run() {
    static std::atomic<std::uint32_t> epochs{0};
    const std::uint32_t outer = std::exchange(
        recording_state.epoch, epochs.fetch_add(1, std::memory_order_relaxed) % 0xFFFFFFFEu + 1);
    const Fn fn = std::move(fn_);
    std::vector<TapeRef> again;
    try {
      const EnableGrad enable;
      const Repositioned same_numbers(random_, drawn_);
      const ExecutionContext scope(options_);
      placed_.begin_again();
      const PlacementTrace::Scope same_places(placed_);
      const Autocast precision(autocast_);
      TapeCollector collector;
      collector.first = tapes_;
      fn(inputs_);
      again = std::move(collector.tapes);
    } catch (...) {
      recording_state.epoch = outer;
      throw;
    }
    recording_state.epoch = outer;
    bool same = again.size() == tapes_.size();
    for (std::size_t i = 0; same && i < again.size(); ++i)
      same = tapes_[i] == nullptr || tapes_[i]->op == again[i]->op;
    if (!same) {
      throw ArgumentError(
          fmt::format("checkpoint: the function recorded {} operations with gradients, and {} when "
                      "called again",
                      tapes_.size(), again.size()));
    }
    for (std::size_t i = 0; i < again.size(); ++i) {
      Tape* tape = std::exchange(tapes_[i], nullptr);
      if (tape == nullptr) continue;
      for (std::size_t k = 0; k < tape->saved.size(); ++k)
        tape->saved[k] = std::move(again[i]->saved[k]);
      tape->output = std::move(again[i]->output);
      for (Held& value : again[i]->auxiliary) tape->auxiliary.emplace_back(std::move(value));
      tape->extras->recompute.reset();
    }
  }

 private:
  Fn fn_;
  std::vector<Tensor> inputs_;
  GeneratorState random_;
  std::vector<StreamPosition> drawn_;
  ExecutionOptions options_;
  PlacementTrace placed_;
  DType autocast_;
  std::vector<Tape*> tapes_;  // null if the record was destroyed or keeps its own values
};

TapeExtras::~TapeExtras() {
  if (recompute) recompute->forget(number);
}
void DropExtras::operator()(TapeExtras* extras) const { delete extras; }

void recompute(Tape& tape) {
  const std::shared_ptr<Recompute> stretch = tape.extras->recompute;
  stretch->run();
}

TapeCollector::TapeCollector() : outer_(std::exchange(recording_state.collector, this)) {}
TapeCollector::~TapeCollector() {
  recording_state.collector = outer_;
  if (outer_ != nullptr) outer_->tapes.insert(outer_->tapes.end(), tapes.begin(), tapes.end());
}

}  // namespace graph

std::vector<Tensor> checkpoint(
    const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& fn,
    const std::vector<Tensor>& inputs) {
  using namespace graph;
  if (!grad_enabled()) return fn(inputs);
  // The current values are kept, since variables may change before the backward pass.
  std::vector<Tensor> kept;
  for (const Tensor& input : inputs) {
    require_defined("checkpoint", input, "an input");
    Tensor same = input.detach();
    if (input.requires_grad()) same.set_requires_grad();
    kept.push_back(std::move(same));
  }
  const auto stretch = std::make_shared<Recompute>(fn, std::move(kept), random_state());
  TapeCollector collector;
  DrawnFrom drawn;
  const PlacementTrace::Scope places(stretch->placed());
  std::vector<Tensor> outputs = fn(inputs);
  stretch->set_drawn(std::move(drawn.streams));
  Recompute::take(stretch, collector.tapes);
  return outputs;
}

Tensor checkpoint(const std::function<Tensor(const Tensor&)>& fn, const Tensor& input) {
  return checkpoint(
      [fn](const std::vector<Tensor>& inputs) { return std::vector<Tensor>{fn(inputs[0])}; },
      {input})[0];
}

}  // namespace volta
