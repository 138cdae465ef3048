// The formulas of the schedulers. As in PyTorch, most of them continue from the current learning
// rate, so changes that a program makes in between are kept.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <fmt/format.h>

#include "volta/error.h"
#include "volta/optim/lr_scheduler.h"

namespace volta::optim {

namespace {

constexpr double kPi = std::numbers::pi;

double half_cosine(double start, double end, double part) {
  return end + (start - end) / 2 * (std::cos(kPi * part) + 1);
}

}  // namespace

void SteppedLR::step() {
  advance();
  std::vector<double> lrs = current_lrs();
  for (std::size_t i = 0; i < lrs.size(); ++i) lrs[i] = next_lr(i, lrs[i]);
  set_lrs(lrs);
  changed();
}

StepLR::StepLR(Optimizer& optimizer, StepLROptions options)
    : SteppedLR("StepLR", optimizer), options_(options) {
  const auto size = static_cast<double>(options.step_size);
  require(options.step_size > 0, "step_size", "positive", size);
  require(options.gamma >= 0, "gamma", "0 or more", options.gamma);
}
double StepLR::next_lr(std::size_t, double lr) const {
  return last_epoch() % options_.step_size == 0 ? lr * options_.gamma : lr;
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, MultiStepLROptions options)
    : SteppedLR("MultiStepLR", optimizer), options_(std::move(options)) {
  require(options_.gamma >= 0, "gamma", "0 or more", options_.gamma);
}
double MultiStepLR::next_lr(std::size_t, double lr) const {
  const auto times =
      std::count(options_.milestones.begin(), options_.milestones.end(), last_epoch());
  return times == 0 ? lr : lr * std::pow(options_.gamma, static_cast<double>(times));
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, ExponentialLROptions options)
    : SteppedLR("ExponentialLR", optimizer), options_(options) {
  require(options.gamma >= 0, "gamma", "0 or more", options.gamma);
}
double ExponentialLR::next_lr(std::size_t, double lr) const { return lr * options_.gamma; }

LinearLR::LinearLR(Optimizer& optimizer, LinearLROptions options)
    : SteppedLR("LinearLR", optimizer), options_(options) {
  require(options.start_factor > 0 && options.start_factor <= 1, "start_factor", "in (0, 1]",
          options.start_factor);
  require(options.end_factor >= 0 && options.end_factor <= 1, "end_factor", "in [0, 1]",
          options.end_factor);
  require(options.total_iters > 0, "total_iters", "positive",
          static_cast<double>(options.total_iters));
  std::vector<double> lrs = current_lrs();
  for (double& lr : lrs) lr *= options.start_factor;
  set_lrs(lrs);
}
double LinearLR::next_lr(std::size_t, double lr) const {
  if (last_epoch() > options_.total_iters) return lr;
  const double change = options_.end_factor - options_.start_factor;
  const double so_far = static_cast<double>(options_.total_iters) * options_.start_factor +
                        static_cast<double>(last_epoch() - 1) * change;
  return lr * (1 + change / so_far);
}

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, CosineAnnealingLROptions options)
    : SteppedLR("CosineAnnealingLR", optimizer), options_(options) {
  require(options.T_max > 0, "T_max", "positive", static_cast<double>(options.T_max));
  require(options.eta_min >= 0, "eta_min", "0 or more", options.eta_min);
}
double CosineAnnealingLR::next_lr(std::size_t group, double lr) const {
  const auto period = static_cast<double>(options_.T_max), now = static_cast<double>(last_epoch());
  const double low = options_.eta_min;
  // At the minimum lr equals eta_min, and the ratio below would divide by zero.
  if ((last_epoch() - 1 - options_.T_max) % (2 * options_.T_max) == 0)
    return lr + (base_lr(group) - low) * (1 - std::cos(kPi / period)) / 2;
  const double before = 1 + std::cos(kPi * (now - 1) / period),
               after = 1 + std::cos(kPi * now / period);
  return after / before * (lr - low) + low;
}

CosineLR::CosineLR(Optimizer& optimizer, CosineLROptions options)
    : SteppedLR("CosineLR", optimizer), options_(options) {
  require(options.warmup_steps >= 0, "warmup_steps", "0 or more",
          static_cast<double>(options.warmup_steps));
  require(options.total_steps > options.warmup_steps, "total_steps", "more than warmup_steps",
          static_cast<double>(options.total_steps));
  require(options.start_factor > 0 && options.start_factor <= 1, "start_factor", "in (0, 1]",
          options.start_factor);
  require(options.eta_min >= 0, "eta_min", "0 or more", options.eta_min);
  std::vector<double> lrs = current_lrs();
  for (std::size_t i = 0; i < lrs.size(); ++i) lrs[i] = next_lr(i, lrs[i]);
  set_lrs(lrs);
}
double CosineLR::next_lr(std::size_t group, double) const {
  const auto warmup = static_cast<double>(options_.warmup_steps),
             total = static_cast<double>(options_.total_steps),
             now = static_cast<double>(last_epoch());
  const double start = options_.start_factor, base = base_lr(group);
  if (last_epoch() < options_.warmup_steps) return base * (start + (1 - start) * now / warmup);
  const double part = std::min(1.0, (now - warmup) / (total - warmup));
  return half_cosine(base, options_.eta_min, part);
}

OneCycleLR::OneCycleLR(Optimizer& optimizer, OneCycleLROptions options)
    : SteppedLR("OneCycleLR", optimizer), options_(std::move(options)) {
  const auto total = static_cast<double>(options_.total_steps);
  require(options_.total_steps > 0, "total_steps", "positive", total);
  const double growing = options_.pct_start;
  require(growing >= 0 && growing <= 1, "pct_start", "in [0, 1]", growing);
  require(options_.div_factor > 0, "div_factor", "positive", options_.div_factor);
  require(options_.final_div_factor > 0, "final_div_factor", "positive", options_.final_div_factor);
  max_lrs_ = per_group("max_lr", options_.max_lr);
  for (const double lr : max_lrs_)
    require(lr >= 0 && std::isfinite(lr), "max_lr", "0 or more and finite", lr);
  if (options_.cycle_momentum) {
    base_momenta_ = per_group("base_momentum", options_.base_momentum);
    max_momenta_ = per_group("max_momentum", options_.max_momentum);
    const ParamGroup& group = optimizer.groups()[0];
    if (!group.has("betas.first") && !group.has("momentum")) {
      throw ArgumentError(
          "OneCycleLR: the optimizer has neither momentum nor betas: cycle_momentum must be false");
    }
  }
  if (options_.three_phase) {
    phases_ = {{growing * total - 1, Level::initial, Level::max, false, true},
               {2 * growing * total - 2, Level::max, Level::initial, true, false},
               {total - 1, Level::initial, Level::min, false, false}};
  } else {
    phases_ = {{growing * total - 1, Level::initial, Level::max, false, true},
               {total - 1, Level::max, Level::min, true, false}};
  }
  std::vector<double> lrs;
  for (std::size_t i = 0; i < max_lrs_.size(); ++i) {
    set_base_lr(i, max_lrs_[i] / options_.div_factor);
    lrs.push_back(next_lr(i, 0));
  }
  set_lrs(lrs);
  set_momenta();
}
double OneCycleLR::level(std::size_t group, Level which) const {
  if (which == Level::max) return max_lrs_[group];
  return which == Level::initial ? base_lr(group) : base_lr(group) / options_.final_div_factor;
}
std::pair<OneCycleLR::Phase, double> OneCycleLR::position() const {
  const auto now = static_cast<double>(last_epoch());
  double start = 0;
  for (const Phase& phase : phases_) {
    if (now <= phase.end_step) {
      // PyTorch would divide by zero for an empty phase; here such a phase is simply over.
      const double length = phase.end_step - start;
      return {phase, length == 0 ? 1 : (now - start) / length};
    }
    start = phase.end_step;
  }
  return {phases_.back(), 1};  // the step after the last one changes nothing
}
double OneCycleLR::annealed(double start, double end, double part) const {
  if (options_.anneal_strategy == Anneal::cos) return half_cosine(start, end, part);
  return (end - start) * part + start;
}
double OneCycleLR::next_lr(std::size_t group, double) const {
  const auto& [phase, part] = position();
  return annealed(level(group, phase.from), level(group, phase.to), part);
}
void OneCycleLR::set_momenta() const {
  if (!options_.cycle_momentum) return;
  const auto& [phase, part] = position();
  for (std::size_t i = 0; i < max_momenta_.size(); ++i) {
    const double momentum = annealed(phase.from_base ? base_momenta_[i] : max_momenta_[i],
                                     phase.to_base ? base_momenta_[i] : max_momenta_[i], part);
    ParamGroup& group = optimizer().groups()[i];
    group.set(group.has("betas.first") ? "betas.first" : "momentum", momentum);
  }
}

namespace {

enum PlateauNumber : std::size_t { kBest, kBad, kCooldown };

}  // namespace

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options)
    : LRScheduler("ReduceLROnPlateau", optimizer,
                  {{"best", std::numeric_limits<double>::infinity()},
                   {"num_bad_epochs", 0},
                   {"cooldown_counter", 0}}),
      options_(std::move(options)) {
  require(options_.factor >= 0 && options_.factor < 1, "factor", "in [0, 1)", options_.factor);
  require(options_.patience >= 0, "patience", "0 or more", static_cast<double>(options_.patience));
  require(options_.cooldown >= 0, "cooldown", "0 or more", static_cast<double>(options_.cooldown));
  require(options_.threshold >= 0, "threshold", "0 or more", options_.threshold);
  require(options_.eps >= 0, "eps", "0 or more", options_.eps);
  min_lrs_ = per_group("min_lr", options_.min_lr);
  if (options_.mode == PlateauMode::max) number(kBest) = -number(kBest);
}
bool ReduceLROnPlateau::is_better(double metric) const {
  const double sign = options_.mode == PlateauMode::min ? -1 : 1, best = number(kBest);
  const double wanted = options_.threshold_mode == ThresholdMode::rel
                            ? best * (1 + sign * options_.threshold)
                            : best + sign * options_.threshold;
  return sign * metric > sign * wanted;
}
void ReduceLROnPlateau::step(double metric) {
  advance();
  if (is_better(metric)) {
    number(kBest) = metric;
    number(kBad) = 0;
  } else {
    ++number(kBad);
  }
  if (number(kCooldown) > 0) {
    --number(kCooldown);
    number(kBad) = 0;
  }
  std::vector<double> lrs = current_lrs();
  if (number(kBad) > static_cast<double>(options_.patience)) {
    for (std::size_t i = 0; i < lrs.size(); ++i) {
      const double reduced = std::max(lrs[i] * options_.factor, min_lrs_[i]);
      if (lrs[i] - reduced > options_.eps) lrs[i] = reduced;
    }
    number(kCooldown) = static_cast<double>(options_.cooldown);
    number(kBad) = 0;
  }
  set_lrs(lrs);
}

}  // namespace volta::optim
