#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "output/units.h"
#include "report/report.h"
#include "stop_requests.h"
#include "train/run_config.h"
#include "train/run_messages.h"
#include "train/run_report.h"
#include "train/shell_word.h"
#include "train/training_step.h"
#include "volta/io/checkpoint.h"
#include "volta/io/summary_writer.h"

namespace volta::cli {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr double kMeasureSeconds = 0.25;  // time between two reads of the loss
constexpr double kSaveSeconds = 60;       // time between checkpoints, besides those at evaluations

class Trainer {
 public:
  Trainer(Context& context, TrainRun& run) : context_(context), run_(run), settings_(run.settings) {
    manual_seed(static_cast<std::uint64_t>(settings_.integer("seed")));
    task_ = run.recipe.make(settings_, run.device, run.config);
    const std::int64_t batches = task_->loader().size();
    const std::int64_t batch = settings_.integer("batch"), all = task_->loader().dataset_size();
    if (batches == 0)
      throw ArgumentError("the data set has no examples to train with: give it more data");
    if (batch > all) {
      messages_.warn(fmt::format(
          "a batch of {} is more than the {} examples that there are: an update has {}",
          human_count(as_count(batch)), human_count(as_count(all)), human_count(as_count(all))));
    }
    total_ = settings_.integer("steps");
    if (total_ == 0) total_ = settings_.integer("epochs") * batches;
    evaluate_every_ = settings_.integer("evaluate_every");
    optimizer_ = std::make_unique<optim::AdamW>(
        task_->model().parameters(),
        optim::AdamWOptions{.lr = settings_.number("lr"),
                            .weight_decay = settings_.number("weight_decay")});
    schedule_ = std::make_unique<optim::CosineLR>(
        *optimizer_,
        optim::CosineLROptions{.total_steps = total_,
                               .warmup_steps = std::min(settings_.integer("warmup"), total_ / 2)});
    if (run.resumed_from) resume();
    // From here on it is certain that the run can begin.
    requests_.emplace(std::initializer_list<int>{SIGINT, SIGTERM});
    Json config = run.config;
    config.update(task_->details());
    if (run.resumed_from) {
      go_on(config);
    } else {
      run.folder.begin(config);
    }
  }

  int run() {
    messages_.say(fmt::format("{} on {} ({}): {} steps, {} {} an epoch, into {}", run_.recipe.name,
                              to_string(run_.device), run_.device.name(),
                              human_count(as_count(total_)),
                              human_count(as_count(task_->loader().dataset_size())), "examples",
                              run_.folder.path().string()));
    if (run_.resumed_from && *run_.resumed_from != to_string(run_.device))
      messages_.say(fmt::format("until now it ran on {}", *run_.resumed_from));
    open_events();
    started_ = measured_ = saved_ = Clock::now();
    try {
      if (step_ >= total_) complete();
      steps();
    } catch (const std::exception& error) {
      write_report({report::State::failed, step_, error.what()});
      throw;
    }
    if (saved_step_ != step_) save();
    const bool finished = step_ >= total_;
    const std::string problem = why_worthless();
    report::Status status{report::State::finished, std::nullopt};
    if (!finished) status = {report::State::interrupted, step_};
    if (!problem.empty()) status = {report::State::failed, step_, problem};
    const std::string page = write_report(std::move(status));
    if (context_.json) print_json();
    if (spoilt()) throw NanError(problem);
    if (!problem.empty()) throw IoError(problem);
    if (!finished) {
      messages_.say(fmt::format("stopped at step {}; go on with:", human_count(as_count(step_))),
                    "volta train --resume " + shell_word(run_.folder.path().string()));
      return StopRequests::exit_code();
    }
    if (best_)
      messages_.say(fmt::format("best {} {}{} at step {}", best_->name, human_number(best_->value),
                                best_->unit, human_count(as_count(best_->step.value_or(0)))));
    if (!page.empty()) messages_.say("report: " + page);
    return kSuccess;
  }

 private:
  static std::uint64_t as_count(std::int64_t value) { return static_cast<std::uint64_t>(value); }
  double seconds() const { return seconds_before_ + seconds_since(started_); }

  // Explains why the run leaves nothing to use or resume; empty if it does leave something.
  std::string why_worthless() const {
    std::string problem, kept = "there is no checkpoint";
    if (saved_step_) {
      kept =
          fmt::format("{} is of step {}", run_.folder.last(), human_count(as_count(*saved_step_)));
    }
    if (spoilt()) {
      problem = fmt::format("the weights at step {} are worthless, {} is not finite",
                            human_count(as_count(step_)),
                            loss_is_none_ ? "the loss" : "the " + metric_that_is_none_);
      return fmt::format("{}: {}; {}", problem, kept, advice());
    }
    if (saved_step_ != step_) {
      problem = fmt::format("what was learned until step {} is not saved ({})",
                            human_count(as_count(step_)), save_error_);
      return fmt::format("{}: {}", problem, kept);
    }
    if (!best_error_.empty() && best_)
      return fmt::format("the weights of the best evaluation, at step {}, are not saved: {}",
                         human_count(as_count(best_->step.value_or(0))), best_error_);
    return {};
  }

  const char* state() const {
    if (spoilt()) return "diverged";
    if (!why_worthless().empty()) return "not saved";
    return step_ >= total_ ? "finished" : "interrupted";
  }

  void print_json() const {
    Json document = {{"folder", run_.folder.path().string()},
                     {"recipe", run_.recipe.name},
                     {"device", to_string(run_.device)},
                     {"state", state()},
                     {"saved", why_worthless().empty()},
                     {"saved_step", saved_step_ ? Json(*saved_step_) : Json()},
                     {"steps", step_},
                     {"seconds", seconds()},
                     {"best", nullptr}};
    if (best_) {
      document["best"] = {{"name", best_->name},
                          {"value", json_number(best_->value)},
                          {"step", best_->step.value_or(0)}};
    }
    Json metrics = Json::object();
    for (const report::Metric& metric : evaluation_.metrics)
      metrics[metric.name] = json_number(metric.value);
    document["metrics"] = std::move(metrics);
    context_.print(document);
  }

  void steps() {
    const std::vector<Tensor> parameters = task_->model().parameters();
    task_->model().train();
    ProgressBar bar(run_.recipe.name, total_,
                    {.terminal = context_.err_terminal.interactive, .enabled = !context_.quiet},
                    step_);
    messages_.set_bar_shown(true);
    while (step_ < total_ && !StopRequests::stopped()) {
      for (const data::Batch& batch : task_->loader()) {
        if (!sample_.x.defined()) sample_ = batch;
        optimizer_->zero_grad();
        loss_ = {};  // released, or the step could not reuse its memory
        loss_ = record_gradients(*task_, settings_, parameters, batch);
        optimizer_->step();
        lr_ = optimizer_->lr();
        schedule_->step();
        ++step_;
        units_ += task_->units(batch);
        bar.advance();
        const bool last = step_ >= total_ || StopRequests::stopped();
        if (last || step_ == 1 || seconds_since(measured_) > kMeasureSeconds) measure(bar);
        const bool due = evaluate_every_ > 0 ? step_ % evaluate_every_ == 0
                                             : task_->loader().position() == task_->loader().size();
        if (step_ >= total_ || (due && !last)) {
          evaluate(step_ >= total_);
        } else if (seconds_since(saved_) > kSaveSeconds) {
          save();
        }
        if (last) break;
      }
    }
    bar.finish();
    messages_.set_bar_shown(false);
  }

  // Completes a run that was killed between its last checkpoint and its report.
  void complete() {
    for (const data::Batch& batch : task_->loader()) {
      sample_ = batch;
      break;
    }
    evaluation_ = task_->evaluate({.samples = true});
    for (report::Metric& metric : evaluation_.metrics) metric.step = step_;
    const std::string& first = evaluation_.metrics.front().name;
    bool known = false;
    run_.folder.read_metrics([&](const Json& metric, std::string_view /*line*/) {
      known = known || (metric["step"].get<std::int64_t>() == step_ && metric.contains(first));
    });
    if (!known) {
      evaluate(true);  // the checkpoint did not belong to an evaluation
    } else if (keep_if_best()) {
      save();  // the disk was full when the best weights were written
    }
  }

  void measure(ProgressBar& bar) {
    const double value = loss_.item(), passed = seconds_since(measured_);
    const double rate = static_cast<double>(units_) / std::max(passed, 1e-9);
    const data::LoaderStats stats = task_->loader().stats();
    const double waited = stats.seconds_waited + stats.first_seconds;
    const double share = std::clamp((waited - waited_) / std::max(passed, 1e-9), 0.0, 1.0);
    waited_ = waited;
    const std::uint64_t memory = memory_stats(run_.device).in_use;
    record({{"step", step_},
            {"loss", json_number(value)},
            {"lr", lr_},
            {"units_per_second", rate},
            {"waiting", share},
            {"memory", memory}},
           {{"loss/train", value},
            {"learning rate", lr_},
            {std::string(task_->unit()) + " a second", rate},
            {"share of time waiting for data", share},
            {"memory", static_cast<double>(memory)}});
    bar.set_text(fmt::format("loss {:.4f}  lr {:.2g}  {:.0f} {}/s  data {:.0f}%  {}", value, lr_,
                             rate, task_->unit(), 100 * share, human_bytes(memory)));
    units_ = 0;
    measured_ = Clock::now();
    look_at_loss(value);
  }

  // Weights are unusable while the latest loss or evaluation is not finite.
  void look_at_loss(double value) {
    loss_is_none_ = !std::isfinite(value);
    if (loss_is_none_) warn_of_nan("the loss", value, "at or before");
  }
  void warn_of_nan(const std::string& what, double value, const char* when) {
    if (std::exchange(warned_of_nan_, true)) return;
    messages_.warn(fmt::format("{} is {} {} step {}: checkpoints from before are kept; {}", what,
                               std::isnan(value) ? "nan" : "infinite", when,
                               human_count(as_count(step_)), advice()));
  }
  bool spoilt() const { return loss_is_none_ || !metric_that_is_none_.empty(); }
  std::string advice() const {
    const double usual = run_.recipe.all_settings().number("lr");
    std::string text = fmt::format("try --lr {:g} or a longer warmup",
                                   std::min(settings_.number("lr"), usual) / 10);
    if (settings_.number("clip") == 0) text += ", and --set clip=1";
    if (settings_.flag("amp")) text += ", and without --amp";
    return text;
  }

  void open_events() {
    try {
      events_ = std::make_unique<SummaryWriter>(run_.folder.path().string());
    } catch (const IoError& error) {
      messages_.warn(fmt::format("there will be nothing for TensorBoard: {}", error.what()));
    }
  }
  // If the disk is full, measurements are lost, but training continues.
  void record(const Json& line, const std::map<std::string, double>& scalars) {
    try {
      run_.folder.append_metric(line);
      if (!events_) return;
      for (const auto& [tag, value] : scalars) events_->add_scalar(tag, value, step_);
    } catch (const IoError& error) {
      if (!std::exchange(warned_of_metrics_, true))
        messages_.warn(fmt::format("measurements are not written: {}", error.what()));
    }
  }

  void evaluate(bool samples) {
    const auto start = Clock::now();
    if (loss_.defined()) look_at_loss(loss_.item());
    evaluation_ = task_->evaluate({.samples = samples});
    Json line = {{"step", step_}};
    std::map<std::string, double> scalars;
    for (report::Metric& metric : evaluation_.metrics) {
      metric.step = step_;
      line[metric.name] = json_number(metric.value);
      scalars[metric.name] = metric.value;
    }
    record(line, scalars);
    // A network of NaNs still predicts some classes correctly, so every metric is checked.
    metric_that_is_none_.clear();
    for (const report::Metric& metric : evaluation_.metrics) {
      if (std::isfinite(metric.value)) continue;
      metric_that_is_none_ = metric.name;
      warn_of_nan("the " + metric.name, metric.value, "at");
      break;
    }
    keep_if_best();
    save();
    std::string text;
    for (const report::Metric& metric : evaluation_.metrics)
      text += fmt::format("  {} {}{}", metric.name, human_number(metric.value), metric.unit);
    messages_.say(fmt::format("step {}:{}", step_, text));
    measured_ += Clock::now() - start;  // evaluation does not count as training time
  }

  // Returns whether the latest evaluation is the best so far, and saves its weights if so.
  bool keep_if_best() {
    const report::Metric& first = evaluation_.metrics.front();
    const bool better =
        !spoilt() && (!best_ || (evaluation_.larger_is_better ? first.value > best_->value
                                                              : first.value < best_->value));
    if (!better) return false;
    best_ = first;
    save_weights();
    return true;
  }

  // A checkpoint is valid from the moment it has its name. Measurements and the best weights that
  // it refers to are therefore on the disk before.
  void save() {
    saved_ = Clock::now();
    if (loss_.defined()) look_at_loss(loss_.item());
    if (spoilt()) return;  // bad weights never replace good ones
    CheckpointValues values{{{"step", static_cast<double>(step_)}, {"seconds", seconds()}},
                            {{"recipe", run_.recipe.name}}};
    if (kept_best_) {
      values.texts["best_name"] = kept_best_->name;
      values.texts["best_unit"] = kept_best_->unit;
      values.numbers["best"] = kept_best_->value;
      values.numbers["best_step"] = static_cast<double>(kept_best_->step.value_or(0));
    }
    save_error_ = written([&] {
      run_.folder.sync_metrics();
      save_checkpoint(run_.folder.last(), parts(), values);
    });
    if (!save_error_.empty()) return;
    saved_step_ = step_;
    if (!best_waits_) return;
    best_error_ = written([&] { run_.folder.publish_best(); });
    best_waits_ = !best_error_.empty();
  }
  // Writes the weights beside the best ones so far, until a checkpoint refers to them.
  void save_weights() {
    best_error_ = written([&] {
      volta::save(task_->model().state_dict(), run_.folder.next_best(),
                  {.metadata = {{"recipe", run_.recipe.name},
                                {"step", std::to_string(step_)},
                                {"volta.crc32", ""}}});  // requests checksums
    });
    if (!best_error_.empty()) return;
    kept_best_ = best_;
    best_waits_ = true;
  }
  CheckpointParts parts() {
    return {.model = task_->model(),
            .optimizer = *optimizer_,
            .scheduler = *schedule_,
            .loader = task_->loader()};
  }
  // If the disk is full, checkpoints are lost, but training continues. Returns the error, if any.
  template <class Save>
  std::string written(const Save& save) {
    try {
      save();
    } catch (const IoError& error) {
      if (!std::exchange(warned_of_checkpoint_, true))
        messages_.warn(
            fmt::format("no checkpoint was written, training goes on: {}", error.what()));
      return error.what();
    }
    warned_of_checkpoint_ = false;
    return {};
  }

  void resume() {
    std::error_code error;
    if (!std::filesystem::exists(run_.folder.last(), error) &&
        !std::filesystem::exists(run_.folder.file("best.safetensors"), error)) {
      begins_again_ = true;  // the run was stopped before its first checkpoint
      return;
    }
    const CheckpointValues values = checkpoint();
    const auto number = [&](const char* name) {
      const auto found = values.numbers.find(name);
      return found == values.numbers.end() ? 0.0 : found->second;
    };
    // Other programs may have written the file.
    const auto count = [&](const char* name) {
      constexpr double kMost = 9007199254740992;  // doubles are exact up to this number
      const double value = number(name);
      if (!(value >= 0 && value <= kMost) || value != std::floor(value))
        throw IoError(fmt::format("{}: {} is {}, which is no number of steps", run_.folder.last(),
                                  name, value));
      return static_cast<std::int64_t>(value);
    };
    step_ = count("step");
    saved_step_ = step_;
    if (step_ > total_ || (step_ == total_ && run_.folder.reported_step() == step_)) {
      throw UsageError(
          fmt::format("{} finished already at step {}, and {} are asked for: give more "
                      "--epochs or --steps",
                      run_.folder.path().string(), step_, total_));
    }
    seconds_before_ = std::max(0.0, number("seconds"));
    if (!std::isfinite(seconds_before_)) seconds_before_ = 0;
    // The checkpoint has the options of its time, but settings may have changed since.
    optim::ParamGroup& group = optimizer_->groups()[0];
    group.set("weight_decay", settings_.number("weight_decay"));
    group.set_initial_lr(settings_.number("lr"));
    if (step_ > 0) place_schedule(step_);
    const auto text = [&](const char* name) {
      const auto found = values.texts.find(name);
      return found == values.texts.end() ? std::string() : found->second;
    };
    if (values.numbers.contains("best")) {
      best_ =
          report::Metric{text("best_name"), number("best"), text("best_unit"), count("best_step")};
      kept_best_ = best_;
    }
  }

  // Sets the schedule as if it had made `steps` steps. The rate depends on the number of the step
  // alone, and a file may state a large number, so only the last step is made.
  void place_schedule(std::int64_t steps) {
    StateDict state;
    for (const auto& [name, value] : schedule_->state_dict()) {
      const bool counts = name == "last_epoch";
      state.add(name,
                counts ? scalar(static_cast<double>(steps - 1), {.dtype = DType::f64}) : value);
    }
    schedule_->load_state_dict(state);
    schedule_->step();
  }

  // Prepares the folder before the first step. If the disk is full, the folder is unchanged.
  void go_on(const Json& config) {
    if (begins_again_)
      messages_.say("there is no checkpoint yet: the run begins again");
    else if (step_ == total_)
      messages_.say(fmt::format("it was stopped at its end, step {}: what is missing is written",
                                human_count(as_count(step_))));
    run_.folder.settle();
    std::string kept;
    bool later = false;  // measurements after the checkpoint are repeated
    const std::int64_t unreadable =
        run_.folder.read_metrics([&](const Json& metric, std::string_view line) {
          if (metric["step"].get<std::int64_t>() > step_) {
            later = true;
          } else {
            kept.append(line).push_back('\n');
          }
        });
    if (unreadable > 0) {
      messages_.warn(fmt::format("{}: {} measurements and left out",
                                 run_.folder.file("metrics.jsonl"),
                                 unreadable == 1 ? std::string("a line is no")
                                                 : fmt::format("{} lines are no", unreadable)));
    }
    try {
      // An incomplete last line would be merged with the next measurement.
      const std::string file = run_.folder.file("metrics.jsonl");
      std::error_code error;
      const bool whole = kept.empty() || kept.size() == std::filesystem::file_size(file, error);
      if (later || unreadable > 0 || !whole) run_.folder.write_metrics(kept);
      run_.folder.write_config(config);
    } catch (const IoError& error) {
      messages_.warn(fmt::format("the run goes on, but what it goes on with is not written: {}",
                                 error.what()));
    }
  }

  // Loads the last checkpoint. An error has only the first mismatch, because there may be hundreds.
  CheckpointValues checkpoint() {
    const std::string file = checkpoint_file(run_.folder, "last");
    try {
      CheckpointParts loaded = parts();
      loaded.scheduler = {};  // set by place_schedule() instead
      return load_checkpoint(file, loaded);
    } catch (const ArgumentError& error) {
      std::istringstream lines(error.what());
      std::string line, differences;
      int left_out = 0;
      std::getline(lines, line);  // the first line only states that it does not fit
      while (std::getline(lines, line)) {
        line.erase(0, line.find_first_not_of(' '));
        if (line.ends_with(':') || line.empty()) continue;
        if (differences.size() < 200) {
          differences += (differences.empty() ? "" : ", ") + line;
        } else {
          ++left_out;
        }
      }
      if (left_out > 0) differences += fmt::format(", and {} more", left_out);
      throw ArgumentError(fmt::format(
          "{} is the checkpoint of another model or of other settings: {}", file, differences));
    }
  }

  // Returns the path of the report, or an empty string if it could not be written.
  std::string write_report(report::Status status) {
    try {
      report::ReportData data =
          report_data(run_, *task_, evaluation_, {step_, seconds(), saved_step_.has_value(), best_},
                      std::move(status));
      add_plan(data);
      run_.folder.write("report.html", report::render(data));
    } catch (const std::exception& error) {
      messages_.warn(fmt::format("the report is not written: {}", error.what()));
      return {};
    }
    return run_.folder.file("report.html");
  }

  // Records a whole step without running it; the weights cannot be used afterwards.
  void add_plan(report::ReportData& data) {
    if (!sample_.x.defined()) return;
    try {
      optimizer_->zero_grad();
      TrainingStep step(*task_, settings_);
      submit(run_.device);
      data.plan = explain(step.record(sample_));
    } catch (const Error&) {  // out of memory, or a device that failed
      data.plan = {};
    }
  }

  Context& context_;
  RunMessages messages_{context_};
  TrainRun& run_;
  const Settings& settings_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<optim::AdamW> optimizer_;
  std::unique_ptr<optim::CosineLR> schedule_;
  std::unique_ptr<SummaryWriter> events_;
  std::optional<StopRequests> requests_;
  std::int64_t total_ = 0, step_ = 0, evaluate_every_ = 0;
  std::int64_t units_ = 0;                  // since the last measurement
  Tensor loss_;                             // loss of the latest step
  double lr_ = 0;                           // learning rate of the latest step
  std::optional<std::int64_t> saved_step_;  // step of last.safetensors
  std::string save_error_, best_error_;     // errors of the latest attempts
  bool loss_is_none_ = false;               // the loss is infinite or NaN
  std::string metric_that_is_none_;         // metric of the latest evaluation that is not finite
  double seconds_before_ = 0;               // duration before the run was resumed
  double waited_ = 0;
  Clock::time_point started_, measured_, saved_;
  data::Batch sample_;
  Evaluation evaluation_;
  std::optional<report::Metric> best_;
  std::optional<report::Metric> kept_best_;  // metric of the best weights in the folder
  bool best_waits_ = false;    // the best weights wait for a checkpoint that refers to them
  bool begins_again_ = false;  // there was no checkpoint to resume from
  bool warned_of_nan_ = false, warned_of_metrics_ = false, warned_of_checkpoint_ = false;
};

}  // namespace

int train(Context& context, TrainRun run) { return Trainer(context, run).run(); }

}  // namespace volta::cli
