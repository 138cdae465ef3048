// Training checkpoints: everything a run needs to go on as if it had not stopped, in one file.
#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "volta/generator.h"
#include "volta/io.h"

namespace volta {

// What can be part of a checkpoint: modules, optimizers, schedulers, GradScaler, loaders, and types
// of one's own. load_state_dict throws an Error if the state does not fit, and then changes
// nothing; after an exception of another type it gets back what state_dict() gave before.
template <class T>
concept Stateful = requires(T& part, const StateDict& state) {
  { part.state_dict() } -> std::convertible_to<StateDict>;
  part.load_state_dict(state);
};

// A reference to something Stateful, or to nothing.
class StatefulRef {
 public:
  StatefulRef() = default;
  template <Stateful T>
    requires(!std::same_as<std::remove_const_t<T>, StatefulRef>)
  StatefulRef(T& part)  // NOLINT: implicit on purpose
      : save_([&part] { return StateDict(part.state_dict()); }),
        load_([&part](const StateDict& state) { part.load_state_dict(state); }) {}

  explicit operator bool() const { return static_cast<bool>(save_); }
  StateDict state_dict() const { return save_(); }
  void load_state_dict(const StateDict& state) const { load_(state); }

 private:
  std::function<StateDict()> save_;
  std::function<void(const StateDict&)> load_;
};

// What is saved, or loaded into. What is not given is not saved, or left alone.
struct CheckpointParts {
  StatefulRef model = {}, optimizer = {}, scheduler = {}, scaler = {};
  StatefulRef loader = {};                                       // where it stands in the data
  std::vector<std::pair<std::string, StatefulRef>> others = {};  // under names without dots
  // Besides the calling thread's own, which is always saved.
  std::vector<std::pair<std::string, Generator>> generators = {};
  // Whether loading sets the calling thread's generator as well. By default it does where a run
  // goes on, that is with an optimizer, and does not where weights alone are asked for.
  std::optional<bool> thread_generator = std::nullopt;
};

// Numbers and texts of one's own.
struct CheckpointValues {
  std::map<std::string, double> numbers = {};
  std::map<std::string, std::string> texts = {};
};

// Writes a safetensors file with the parts' tensors ("model.<name>", "optimizer.<name>", ...) and,
// as metadata, the values, a checksum of each tensor, and which ways of computing were timed and
// chosen on this machine. The file at `path` stays as it was until the new one is complete, also if
// the process is killed.
//   save_checkpoint("run.ckpt", {.model = model, .optimizer = optimizer, .scheduler = scheduler},
//                   {.numbers = {{"epoch", 3}}});
VOLTA_API void save_checkpoint(const std::string& path, const CheckpointParts& parts,
                               const CheckpointValues& values = {});

// Loads every part that is given, and returns the values. A run that goes on from here computes, on
// the same device with the same build and number of threads, the bits that it would have without
// the stop: load before the first step, so that the timed choices hold from the start. Where
// something does not fit, one ArgumentError lists all differences of all parts, and nothing has
// changed: also if a part of one's own threw something else, which is then nested in it
// (std::rethrow_if_nested). IoError for files that are no checkpoints, and for a tensor whose bytes
// are not those that were saved.
VOLTA_API CheckpointValues load_checkpoint(const std::string& path, const CheckpointParts& parts);

}  // namespace volta
