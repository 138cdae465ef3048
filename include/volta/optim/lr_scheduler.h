// Schedulers of the learning rates of an optimizer's groups, with PyTorch's numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include "volta/io.h"
#include "volta/optim/optimizer.h"

namespace volta::optim {

// One number for all parameter groups, or one for each.
class PerGroup {
 public:
  PerGroup() = default;
  PerGroup(double all) : values_{all} {}                            // NOLINT: implicit on purpose
  PerGroup(std::initializer_list<double> each) : values_(each) {}   // NOLINT: implicit
  PerGroup(std::vector<double> each) : values_(std::move(each)) {}  // NOLINT: implicit
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;
};

// Base class of all schedulers. The optimizer must outlive its schedulers. They start from the
// groups' initial_lr, the learning rate when the first scheduler was made.
class VOLTA_API LRScheduler {
 public:
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;
  virtual ~LRScheduler();

  const std::vector<double>& last_lr() const { return last_lr_; }  // learning rate of each group
  std::int64_t last_epoch() const { return last_epoch_; }          // number of steps so far

  StateDict state_dict() const;
  // Sets the saved learning rates in the optimizer. Throws one ArgumentError listing all
  // mismatches, and then changes nothing.
  void load_state_dict(const StateDict& state);

 protected:
  // An additional number in the state dict.
  struct Number {
    const char* name;
    double value;
  };

  // `name` and the names of the numbers are string literals.
  LRScheduler(const char* name, Optimizer& optimizer, std::vector<Number> numbers = {});
  Optimizer& optimizer() const { return optimizer_; }
  double base_lr(std::size_t group) const { return base_lrs_[group]; }
  void set_base_lr(std::size_t group, double lr);  // also sets the group's initial_lr
  void set_lrs(const std::vector<double>& lrs);
  std::vector<double> current_lrs() const;
  // Counts a step. Throws ArgumentError if groups were added to the optimizer, or after the last
  // step.
  void advance();
  virtual std::int64_t most_steps() const { return std::numeric_limits<std::int64_t>::max(); }
  // Expands one value for all groups or one for each; throws ArgumentError for other counts.
  std::vector<double> per_group(const char* what, const PerGroup& given) const;
  // Throws ArgumentError "<name>: <what> must be <wanted>, got <value>".
  void require(bool good, const char* what, const char* wanted, double value) const;

  double& number(std::size_t i) { return numbers_[i].value; }
  double number(std::size_t i) const { return numbers_[i].value; }
  virtual void changed() {}  // called when last_epoch() has changed

 private:
  const char* name_;
  Optimizer& optimizer_;
  std::vector<Number> numbers_;
  std::vector<double> base_lrs_, last_lr_;
  std::int64_t last_epoch_ = 0;
};

// Schedulers that depend only on the number of steps. Call step() after the optimizer's step().
class VOLTA_API SteppedLR : public LRScheduler {
 public:
  void step();

 protected:
  using LRScheduler::LRScheduler;
  // The learning rate for step last_epoch(), given the group's current one.
  virtual double next_lr(std::size_t group, double lr) const = 0;
};

struct StepLROptions {
  std::int64_t step_size = 0;
  double gamma = 0.1;
};
// Multiplies by gamma every step_size steps.
class VOLTA_API StepLR : public SteppedLR {
 public:
  StepLR(Optimizer& optimizer, StepLROptions options);

 protected:
  double next_lr(std::size_t group, double lr) const override;

 private:
  StepLROptions options_;
};

struct MultiStepLROptions {
  std::vector<std::int64_t> milestones = {};
  double gamma = 0.1;
};
// Multiplies by gamma at each milestone, once for every time it is listed.
class VOLTA_API MultiStepLR : public SteppedLR {
 public:
  MultiStepLR(Optimizer& optimizer, MultiStepLROptions options);

 protected:
  double next_lr(std::size_t group, double lr) const override;

 private:
  MultiStepLROptions options_;
};

struct ExponentialLROptions {
  double gamma = 1;
};
// Multiplies by gamma at every step.
class VOLTA_API ExponentialLR : public SteppedLR {
 public:
  ExponentialLR(Optimizer& optimizer, ExponentialLROptions options);

 protected:
  double next_lr(std::size_t group, double lr) const override;

 private:
  ExponentialLROptions options_;
};

struct LinearLROptions {
  double start_factor = 1.0 / 3;
  double end_factor = 1;
  std::int64_t total_iters = 5;
};
// Multiplies by a factor that changes linearly from start_factor to end_factor in total_iters
// steps.
class VOLTA_API LinearLR : public SteppedLR {
 public:
  explicit LinearLR(Optimizer& optimizer, LinearLROptions options = {});

 protected:
  double next_lr(std::size_t group, double lr) const override;

 private:
  LinearLROptions options_;
};

struct CosineAnnealingLROptions {
  std::int64_t T_max = 0;
  double eta_min = 0;
};
// Decreases to eta_min in T_max steps along half a cosine, then rises again.
class VOLTA_API CosineAnnealingLR : public SteppedLR {
 public:
  CosineAnnealingLR(Optimizer& optimizer, CosineAnnealingLROptions options);

 protected:
  double next_lr(std::size_t group, double lr) const override;

 private:
  CosineAnnealingLROptions options_;
};

struct CosineLROptions {
  std::int64_t total_steps = 0;
  std::int64_t warmup_steps = 0;  // part of total_steps
  double start_factor = 1.0 / 3;  // factor of the first step if there is a warm-up
  double eta_min = 0;
};
// Rises linearly from start_factor, then decreases along half a cosine and stays there. Equals
// PyTorch's SequentialLR of LinearLR and CosineAnnealingLR.
class VOLTA_API CosineLR : public SteppedLR {
 public:
  CosineLR(Optimizer& optimizer, CosineLROptions options);

 protected:
  double next_lr(std::size_t group, double lr) const override;

 private:
  CosineLROptions options_;
};

enum class Anneal : std::uint8_t { cos, linear };
struct OneCycleLROptions {
  PerGroup max_lr = {};
  std::int64_t total_steps = 0;
  double pct_start = 0.3;  // fraction of the steps in which the learning rate rises
  Anneal anneal_strategy = Anneal::cos;
  bool cycle_momentum = true;  // changes the momentum, or the first beta, in the opposite direction
  PerGroup base_momentum = 0.85, max_momentum = 0.95;
  double div_factor = 25;         // the first learning rate is max_lr / div_factor
  double final_div_factor = 1e4;  // the last learning rate is the first one divided by this
  bool three_phase = false;  // decreases to the first rate as fast as it rose, then to the last
};
// Rises to max_lr and decreases again, once.
class VOLTA_API OneCycleLR : public SteppedLR {
 public:
  OneCycleLR(Optimizer& optimizer, OneCycleLROptions options);

 protected:
  double next_lr(std::size_t group, double lr) const override;
  void changed() override { set_momenta(); }
  std::int64_t most_steps() const override { return options_.total_steps; }

 private:
  // The learning rate at the start or end of a phase.
  enum class Level : std::uint8_t { initial, max, min };
  struct Phase {
    double end_step;
    Level from, to;
    bool from_base, to_base;  // base_momentum at that end of the phase, otherwise max_momentum
  };
  double level(std::size_t group, Level which) const;
  // The current phase, and the fraction of it that has passed.
  std::pair<Phase, double> position() const;
  double annealed(double start, double end, double part) const;
  void set_momenta() const;

  OneCycleLROptions options_;
  std::vector<double> max_lrs_, base_momenta_, max_momenta_;
  std::vector<Phase> phases_;
};

enum class PlateauMode : std::uint8_t { min, max };
enum class ThresholdMode : std::uint8_t { rel, abs };
struct ReduceLROnPlateauOptions {
  PlateauMode mode = PlateauMode::min;  // whether smaller or larger metrics are better
  double factor = 0.1;
  std::int64_t patience = 10;  // steps in a row without improvement before a reduction
  // Smallest improvement that counts, relative to the best metric or absolute.
  double threshold = 1e-4;
  ThresholdMode threshold_mode = ThresholdMode::rel;
  std::int64_t cooldown = 0;  // steps after a reduction that are not counted
  PerGroup min_lr = 0;
  double eps = 1e-8;  // smaller reductions are skipped
};
// Multiplies by factor when a metric has stopped improving.
class VOLTA_API ReduceLROnPlateau : public LRScheduler {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options = {});
  void step(double metric);

 private:
  bool is_better(double metric) const;

  ReduceLROnPlateauOptions options_;
  std::vector<double> min_lrs_;
};

}  // namespace volta::optim
