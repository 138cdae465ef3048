// Summary: the output shapes and costs of a module's layers, observed during one forward pass that
// is recorded and never computed.
#include "volta/nn/summary.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <ostream>
#include <regex>
#include <set>
#include <typeinfo>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "nn/call_watch.h"
#include "volta/autograd.h"
#include "volta/creation.h"
#include "volta/detail/operation_count.h"
#include "volta/error.h"

namespace volta::nn {

namespace {

std::string class_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  std::string name = status == 0 ? text.get() : type.name();
  static const std::regex qualifiers(R"(\(anonymous namespace\)::|[A-Za-z_]\w*::)");
  return std::regex_replace(name, qualifiers, "");
}

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<std::int64_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

}  // namespace

constinit thread_local Module::Watch* Module::Watch::current_ = nullptr;

void Module::Watch::called(const Module& module, std::span<const Tensor> inputs,
                           std::span<const Tensor> outputs) {
  Calls& calls = calls_[module.state_.get()];
  calls.kind = module.kind();
  calls.parameters = module.state_->parameter_count();
  calls.outputs.clear();
  for (const Tensor& output : outputs) calls.outputs.push_back(output.shape());
  const std::size_t held = given_.size();
  given_.insert(given_.end(), inputs.begin(), inputs.end());
  calls.operations += volta::detail::count_operations(outputs, given_);
  given_.resize(held);
}

std::vector<std::string> Module::Watch::strays(const std::set<const State*>& known) const {
  std::vector<std::string> kinds;
  for (const auto& [state, calls] : calls_) {
    if (calls.parameters > 0 && !known.contains(state)) kinds.push_back(calls.kind);
  }
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}

void Module::called(std::initializer_list<Tensor> inputs,
                    std::initializer_list<Tensor> outputs) const {
  if (Watch* watch = Watch::current()) {
    watch->called(*this, std::span(inputs.begin(), inputs.size()),
                  std::span(outputs.begin(), outputs.size()));
  }
}

std::string Module::kind() const { return class_name(typeid(*this)); }

Summary Module::summary(const Shape& input, SummaryOptions options) {
  return summary([&] {
    const TensorOptions made = {.dtype = options.dtype, .device = device()};
    (*this)(zeros(input, made));
  });
}

Summary Module::summary(const std::function<void()>& call) {
  struct Modes {  // restores the training modes, also after an exception
    explicit Modes(State& root) {
      root.for_each([&](State& state) { before.emplace(&state, state.training); });
      root.for_each([](State& state) { state.training = false; });
    }
    Modes(const Modes&) = delete;
    Modes& operator=(const Modes&) = delete;
    ~Modes() {
      for (const auto& [state, training] : before) state->training = training;
    }
    std::map<State*, bool> before;
  };
  std::vector<Tensor> held;
  for (const auto& leaf : state_->all_leaves()) held.push_back(*leaf.tensor);
  Watch watch(std::move(held));
  {
    NoGrad no_grad;
    const Modes modes(*state_);
    call();
  }

  Summary result;
  std::set<const State*> seen;
  const auto visit = [&](const auto& self, const Module& module, const std::string& name,
                         int depth) -> void {
    State* state = module.state_.get();
    if (!seen.insert(state).second) return;
    Summary::Row row;
    row.name = name;
    row.kind = module.kind();
    row.depth = depth;
    if (const Watch::Calls* calls = watch.find(state)) {
      row.outputs = calls->outputs;
      row.operations = calls->operations;
    }
    row.parameters = state->parameter_count();
    const std::size_t position = result.rows.size();
    result.rows.push_back(std::move(row));
    std::int64_t below = 0;
    for (const auto& child : state->children) {
      const std::size_t first = result.rows.size();
      self(self, *child.module, name.empty() ? child.name : name + "." + child.name, depth + 1);
      if (first < result.rows.size()) below += result.rows[first].operations;
    }
    // A container of modules is not called itself, so it gets the sum of its children.
    Summary::Row& own = result.rows[position];
    if (own.outputs.empty()) own.operations = below;
  };
  visit(visit, *this, "", 0);
  result.strays = watch.strays(seen);

  for (const auto& leaf : State::unique(state_->parameter_leaves())) {
    result.parameters += leaf.tensor->numel();
    if (leaf.tensor->requires_grad()) result.trainable += leaf.tensor->numel();
  }
  for (const auto& leaf : State::unique(state_->all_leaves())) {
    result.bytes += leaf.tensor->numel() * static_cast<std::int64_t>(size_of(leaf.tensor->dtype()));
  }
  result.operations = result.rows.front().operations;
  return result;
}

std::string to_string(const Summary& summary) {
  struct Line {
    std::string layer, output, parameters, operations;
  };
  std::vector<Line> lines = {{"layer", "output", "parameters", "operations"}};
  for (const Summary::Row& row : summary.rows) {
    const std::string own = row.name.substr(row.name.rfind('.') + 1);
    std::vector<std::string> shapes;
    for (const Shape& shape : row.outputs) shapes.push_back(to_string(shape));
    lines.push_back({std::string(static_cast<std::size_t>(2 * row.depth), ' ') +
                         (own.empty() ? row.kind : fmt::format("{} ({})", own, row.kind)),
                     shapes.empty() ? "-" : fmt::format("{}", fmt::join(shapes, ", ")),
                     row.parameters == 0 ? "-" : grouped(row.parameters),
                     row.operations == 0 ? "-" : grouped(row.operations)});
  }
  std::size_t width[4] = {};
  for (const Line& line : lines) {
    width[0] = std::max(width[0], line.layer.size());
    width[1] = std::max(width[1], line.output.size());
    width[2] = std::max(width[2], line.parameters.size());
    width[3] = std::max(width[3], line.operations.size());
  }
  std::string text;
  const std::string rule(width[0] + width[1] + width[2] + width[3] + 6, '-');
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    text += fmt::format("{:<{}}  {:<{}}  {:>{}}  {:>{}}\n", line.layer, width[0], line.output,
                        width[1], line.parameters, width[2], line.operations, width[3]);
    if (i == 0) text += rule + "\n";
  }
  text += rule + "\n" +
          fmt::format("{} parameters, {} of them trained; {:.1f} MB with buffers; {} operations\n",
                      grouped(summary.parameters), grouped(summary.trainable),
                      static_cast<double>(summary.bytes) / 1e6, grouped(summary.operations));
  if (!summary.strays.empty()) {
    text += fmt::format(
        "called, but never added to a module, so neither trained, moved nor saved with it: {}\n",
        fmt::join(summary.strays, ", "));
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, const Summary& summary) {
  return out << to_string(summary);
}

}  // namespace volta::nn
