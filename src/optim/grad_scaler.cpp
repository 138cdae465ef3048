// GradScaler. The scale, the flag for infinite gradients and the growth tracker are scalars on the
// device.
#include "volta/optim/grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "volta/autocast.h"
#include "volta/autograd.h"
#include "volta/creation.h"
#include "volta/detail/optimizer_ops.h"
#include "volta/error.h"
#include "volta/ops.h"

namespace volta {

namespace {

using Floats = std::numeric_limits<float>;
constexpr std::int64_t kMostSteps = std::numeric_limits<std::int32_t>::max();

// A condition on an option, checked on the option's value in f32.
struct Rule {
  const char* wanted;
  bool (*holds)(float value);
};
constexpr Rule kScale{"positive, finite and normal in f32",
                      [](float value) { return value >= Floats::min() && value <= Floats::max(); }};
constexpr Rule kGrowth{"greater than 1 and finite in f32",
                       [](float value) { return value > 1 && value <= Floats::max(); }};
constexpr Rule kBackoff{"between 0 and 1 in f32",
                        [](float value) { return value > 0 && value < 1; }};

// Returns what is wrong with a value, or an empty string.
std::string problem_of(const char* what, const Rule& rule, double value) {
  if (rule.holds(static_cast<float>(value))) return {};
  return fmt::format("{} must be {}, got {}", what, rule.wanted, value);
}
std::string problem_of_interval(double value) {
  if (value >= 1 && value <= static_cast<double>(kMostSteps) && value == std::trunc(value))
    return {};
  return fmt::format("growth_interval must be whole, positive and below 2^31, got {}", value);
}
std::string problem_of_tracker(double value) {
  if (value >= 0 && value < static_cast<double>(kMostSteps) && value == std::trunc(value))
    return {};
  return fmt::format("growth_tracker must be whole, zero or more and below 2^31 - 1, got {}",
                     value);
}
void require(const std::string& problem) {
  if (!problem.empty()) throw ArgumentError("GradScaler: " + problem);
}

// The scalars are computed values from the start, so that the first steps have the plan of later
// ones.
template <class T>
Tensor in_memory(T value, Device device) {
  return from_vector(std::vector<T>{value}, Shape{}, {.device = device});
}

// Returns a value that is nonzero if any of the flags is.
Tensor any_of(const std::vector<Tensor>& found, SourceLocation place) {
  return found.size() == 1 ? found[0] : total_norm(found, 1, place);
}

}  // namespace

GradScaler::GradScaler(GradScalerOptions options) : options_(options) {
  require(problem_of("init_scale", kScale, options.init_scale));
  require(problem_of("growth_factor", kGrowth, options.growth_factor));
  require(problem_of("backoff_factor", kBackoff, options.backoff_factor));
  require(problem_of_interval(static_cast<double>(options.growth_interval)));
}

void GradScaler::require_scale(const char* function) const {
  if (scale_.defined()) return;
  throw ArgumentError(
      fmt::format("GradScaler: {} without a scaled loss: scale() was not called", function));
}

void GradScaler::place_on(Device device) {
  if (scale_.defined()) return;
  Tensor scale = in_memory(static_cast<float>(options_.init_scale), device);
  growth_tracker_ = in_memory(initial_growth_, device);
  scale_ = std::move(scale);
}

Tensor GradScaler::scale(const Tensor& loss, SourceLocation place) {
  if (!loss.defined()) throw ArgumentError("GradScaler: the loss is not a tensor");
  if (!options_.enabled) return loss;
  place_on(loss.device());
  return mul({loss, place}, {scale_.to(loss.device(), place), place});
}

// Entries of destroyed optimizers are merged into found_by_others_ and dropped.
GradScaler::Progress& GradScaler::progress_of(const optim::Optimizer& optimizer,
                                              SourceLocation place) {
  const auto known = std::find_if(progress_.begin(), progress_.end(), [&](const Progress& one) {
    return one.optimizer.lock() == optimizer.identity_;
  });
  if (known != progress_.end()) return *known;
  std::vector<Tensor> found;
  if (found_by_others_.defined()) found.push_back(found_by_others_);
  for (const Progress& one : progress_) {
    if (one.optimizer.expired() && one.found_inf.defined()) found.push_back(one.found_inf);
  }
  if (!found.empty()) found_by_others_ = any_of(found, place);
  std::erase_if(progress_, [](const Progress& one) { return one.optimizer.expired(); });
  return progress_.emplace_back(
      Progress{.optimizer = optimizer.identity_, .phase = Phase::ready, .found_inf = {}});
}

// Returns a flag on the scale's device: whether any gradient of the optimizer is not finite. The
// result is undefined if there are no gradients.
Tensor GradScaler::check(const optim::Optimizer& optimizer, const char* function,
                         SourceLocation place) const {
  std::vector<Tensor> gradients = optimizer.gradients(), found;
  for (const Tensor& gradient : gradients) {
    if (gradient.dtype() == DType::f16) {
      throw DTypeError(fmt::format(
          "GradScaler: {} needs gradients that can hold what is unscaled, got f16: parameters stay "
          "f32 under Autocast",
          function));
    }
  }
  while (!gradients.empty()) {
    std::vector<Tensor> here, elsewhere;
    for (const Tensor& gradient : gradients)
      (gradient.device() == gradients.front().device() ? here : elsewhere).push_back(gradient);
    found.push_back(any_nonfinite(here, place).to(scale_.device(), place));
    gradients = std::move(elsewhere);
  }
  return found.empty() ? Tensor() : any_of(found, place);
}

void GradScaler::unscale_(optim::Optimizer& optimizer, SourceLocation place) {
  if (!options_.enabled) return;
  const NoGrad no_grad;
  const Autocast as_they_are(DType::f32);
  require_scale("unscale_()");
  Progress& progress = progress_of(optimizer, place);
  if (progress.phase == Phase::unscaled) {
    throw ArgumentError(
        "GradScaler: unscale_() was called twice for an optimizer since the last update()");
  }
  if (progress.phase == Phase::stepped) {
    throw ArgumentError("GradScaler: unscale_() was called after step() of the optimizer");
  }
  Tensor found_inf = check(optimizer, "unscale_()", place);
  const Tensor inverse = reciprocal(scale_, place);
  for (Tensor& gradient : optimizer.gradients())
    gradient *= Operand(inverse.to(gradient.device(), place), place);
  progress.found_inf = std::move(found_inf);
  progress.phase = Phase::unscaled;
}

void GradScaler::step(optim::Optimizer& optimizer, SourceLocation place) {
  if (!options_.enabled) return optimizer.step(place);
  const NoGrad no_grad;
  const Autocast as_they_are(DType::f32);
  require_scale("step()");
  Phase phase = progress_of(optimizer, place).phase;
  if (phase == Phase::stepped) {
    throw ArgumentError(
        "GradScaler: step() was called twice for an optimizer since the last update()");
  }
  const bool on_device = optimizer.skips_on_device();
  if (phase == Phase::ready && !on_device && !optimizer.gradients().empty()) {
    unscale_(optimizer, place);
    phase = Phase::unscaled;
  }
  ScaledStep scaled;
  if (phase == Phase::ready) {
    scaled.found_inf = check(optimizer, "step()", place);
    scaled.inverse_scale = reciprocal(scale_, place);
  } else {
    scaled.found_inf = progress_of(optimizer, place).found_inf;
  }
  if (!scaled.found_inf.defined()) {
    throw ArgumentError(
        "GradScaler: step(): no inf checks were recorded for this optimizer: it had no gradients");
  }
  const Tensor found_inf = scaled.found_inf;
  if (on_device) {
    struct Restore {
      ScaledStep& step;
      ~Restore() { step = {}; }
    } const restore{optimizer.scaled_};
    optimizer.scaled_ = std::move(scaled);
    optimizer.step(place);
  } else if (found_inf.item() == 0) {
    optimizer.step(place);
  }
  Progress& progress = progress_of(optimizer, place);
  progress.found_inf = found_inf;
  progress.phase = Phase::stepped;
}

void GradScaler::update(std::optional<double> new_scale, SourceLocation place) {
  if (!options_.enabled) return;
  const NoGrad no_grad;
  const Autocast as_they_are(DType::f32);
  require_scale("update()");
  if (new_scale) {
    require(problem_of("new_scale", kScale, *new_scale));
    scale_.fill_(*new_scale);
  } else {
    std::vector<Tensor> found;
    for (const Progress& progress : progress_) {
      if (progress.found_inf.defined()) found.push_back(progress.found_inf);
    }
    if (found_by_others_.defined()) found.push_back(found_by_others_);
    if (found.empty()) {
      throw ArgumentError(
          "GradScaler: update() without a step() or unscale_() of gradients since the last one");
    }
    const auto at = [place](const auto& value) { return Operand(value, place); };
    const Tensor failed = ne(at(any_of(found, place)), at(0));
    const Tensor grown = add(at(growth_tracker_), at(1));
    const Tensor due = ge(at(grown), at(options_.growth_interval));
    const Tensor larger = mul(at(scale_), at(options_.growth_factor)),
                 smaller = mul(at(scale_), at(options_.backoff_factor));
    const Tensor is_finite = lt(at(larger), at(std::numeric_limits<double>::infinity()));
    const Tensor is_normal = ge(at(smaller), at(static_cast<double>(Floats::min())));
    const Tensor after_success = where(logical_and(at(due), at(is_finite)), at(larger), at(scale_));
    const Tensor after_failure = where(is_normal, at(smaller), at(scale_));
    scale_.copy_(where(failed, at(after_failure), at(after_success)), place);
    growth_tracker_.copy_(where(logical_or(at(failed), at(due)), at(0), at(grown)), place);
  }
  progress_.clear();
  found_by_others_ = {};
}

double GradScaler::get_scale() const {
  if (!options_.enabled) return 1;
  return scale_.defined() ? scale_.item() : options_.init_scale;
}

StateDict GradScaler::state_dict() const {
  StateDict state;
  if (!options_.enabled) return state;
  const auto number = [&](const char* name, double value) {
    state.add(name, scalar(value, {.dtype = DType::f64}));
  };
  state.add("scale", scale_.defined() ? scale_.detach() : scalar(options_.init_scale));
  number("growth_factor", options_.growth_factor);
  number("backoff_factor", options_.backoff_factor);
  number("growth_interval", static_cast<double>(options_.growth_interval));
  state.add("growth_tracker", growth_tracker_.defined()
                                  ? growth_tracker_.detach()
                                  : scalar(initial_growth_, {.dtype = DType::i32}));
  return state;
}

void GradScaler::load_state_dict(const StateDict& state) {
  if (!options_.enabled) return;
  std::string problems;
  const auto number = [&](const char* name, auto problem) -> double {
    const Tensor* value = state.find(name);
    if (value == nullptr) {
      problems += fmt::format("\n  missing: {}", name);
    } else if (value->numel() != 1) {
      problems += fmt::format("\n  wrong shape: {} is a number, {} in the state dict", name,
                              to_string(value->shape()));
    } else {
      const double read = value->item();
      const std::string wrong = problem(read);
      if (wrong.empty()) return read;
      problems += "\n  wrong value: " + wrong;
    }
    return 0;
  };
  const auto follows = [](const char* name, const Rule& rule) {
    return [name, &rule](double value) { return problem_of(name, rule, value); };
  };
  GradScalerOptions loaded = options_;
  loaded.init_scale = number("scale", follows("scale", kScale));
  loaded.growth_factor = number("growth_factor", follows("growth_factor", kGrowth));
  loaded.backoff_factor = number("backoff_factor", follows("backoff_factor", kBackoff));
  loaded.growth_interval =
      static_cast<std::int64_t>(number("growth_interval", problem_of_interval));
  const auto growth = static_cast<std::int32_t>(number("growth_tracker", problem_of_tracker));
  for (const auto& [name, tensor] : state) {
    static constexpr const char* kKnown[] = {"scale", "growth_factor", "backoff_factor",
                                             "growth_interval", "growth_tracker"};
    if (std::find(std::begin(kKnown), std::end(kKnown), name) == std::end(kKnown))
      problems += fmt::format("\n  unexpected: {} {}", name, to_string(tensor.shape()));
  }
  if (!problems.empty())
    throw ArgumentError("GradScaler: the state dict does not fit the scaler" + problems);
  if (scale_.defined()) {
    Tensor scale = in_memory(static_cast<float>(loaded.init_scale), scale_.device());
    growth_tracker_ = in_memory(growth, scale_.device());
    scale_ = std::move(scale);
  }
  options_ = loaded;
  initial_growth_ = growth;
}

}  // namespace volta
