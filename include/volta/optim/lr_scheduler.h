// Schedulers: learning rates of an optimizer's groups from step to step, with PyTorch's numbers.
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

// One number for all groups of parameters, or one for each.
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

// The optimizer must outlive its schedulers. Its groups' initial_lr is where they start: the
// learning rate that the first scheduler found.
class VOLTA_API LRScheduler {
 public:
  LRScheduler(const LRScheduler&) = delete;
  LRScheduler& operator=(const LRScheduler&) = delete;
  virtual ~LRScheduler();

  const std::vector<double>& last_lr() const { return last_lr_; }  // of each group
  std::int64_t last_epoch() const { return last_epoch_; }          // steps so far

  StateDict state_dict() const;
  // Gives the optimizer the saved learning rates. Throws one ArgumentError listing all that does
  // not fit, and then changes nothing.
  void load_state_dict(const StateDict& state);

 protected:
  // What else is saved.
  struct Number {
    const char* name;
    double value;
  };

  // `name` and those of the numbers are string literals.
  LRScheduler(const char* name, Optimizer& optimizer, std::vector<Number> numbers = {});
  Optimizer& optimizer() const { return optimizer_; }
  double base_lr(std::size_t group) const { return base_lrs_[group]; }
  void set_base_lr(std::size_t group, double lr);  // the group's initial_lr too
  void set_lrs(const std::vector<double>& lrs);
  std::vector<double> current_lrs() const;
  // Counts a step. Throws ArgumentError if the optimizer has got more groups, or after the last.
  void advance();
  virtual std::int64_t most_steps() const { return std::numeric_limits<std::int64_t>::max(); }
  // One value for all groups or one for each; throws ArgumentError for other counts.
  std::vector<double> per_group(const char* what, const PerGroup& given) const;
  // Throws ArgumentError "<name>: <what> must be <wanted>, got <value>".
  void require(bool good, const char* what, const char* wanted, double value) const;

  double& number(std::size_t i) { return numbers_[i].value; }
  double number(std::size_t i) const { return numbers_[i].value; }
  virtual void changed() {}  // last_epoch() is another

 private:
  const char* name_;
  Optimizer& optimizer_;
  std::vector<Number> numbers_;
  std::vector<double> base_lrs_, last_lr_;
  std::int64_t last_epoch_ = 0;
};

// Those whose learning rates depend on the number of steps alone. step() follows the optimizer's.
class VOLTA_API SteppedLR : public LRScheduler {
 public:
  void step();

 protected:
  using LRScheduler::LRScheduler;
  // For step last_epoch(), from the group's learning rate before it.
  virtual double next_lr(std::size_t group, double lr) const = 0;
};

struct StepLROptions {
  std::int64_t step_size = 0;
  double gamma = 0.1;
};
// Times gamma every step_size steps.
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
// Times gamma at each milestone, as often as it is listed.
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
// Times gamma at every step.
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
// A factor that goes from the first to the second in total_iters steps.
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
// Down to eta_min in T_max steps along half a cosine, and up again.
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
  std::int64_t warmup_steps = 0;  // of them
  double start_factor = 1.0 / 3;  // of the first step, where there is a warm-up
  double eta_min = 0;
};
// Up from start_factor in a line, then down along half a cosine, where it stays: PyTorch's
// SequentialLR of LinearLR and CosineAnnealingLR.
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
  double pct_start = 0.3;  // the part of the steps in which the learning rate grows
  Anneal anneal_strategy = Anneal::cos;
  bool cycle_momentum = true;  // the momentum, or the first beta, the other way round
  PerGroup base_momentum = 0.85, max_momentum = 0.95;
  double div_factor = 25;         // the first learning rate is max_lr / div_factor
  double final_div_factor = 1e4;  // and the last one that, divided by this
  bool three_phase = false;       // down to the first one as fast as up, then to the last
};
// Up to max_lr and down again, once.
class VOLTA_API OneCycleLR : public SteppedLR {
 public:
  OneCycleLR(Optimizer& optimizer, OneCycleLROptions options);

 protected:
  double next_lr(std::size_t group, double lr) const override;
  void changed() override { set_momenta(); }
  std::int64_t most_steps() const override { return options_.total_steps; }

 private:
  // Which of the numbers a phase goes between.
  enum class Level : std::uint8_t { initial, max, min };
  struct Phase {
    double end_step;
    Level from, to;
    bool from_base, to_base;  // of the momentum; otherwise max_momentum
  };
  double level(std::size_t group, Level which) const;
  // The phase that the step is in, and how far.
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
  PlateauMode mode = PlateauMode::min;  // what is better: less or more
  double factor = 0.1;
  std::int64_t patience = 10;  // steps in a row without improvement that change nothing
  double threshold = 1e-4;     // what counts as improvement, relative to the best or as it is
  ThresholdMode threshold_mode = ThresholdMode::rel;
  std::int64_t cooldown = 0;  // steps after a reduction that do not count
  PerGroup min_lr = 0;
  double eps = 1e-8;  // reductions by less are not made
};
// Times factor when a metric has stopped to improve.
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
