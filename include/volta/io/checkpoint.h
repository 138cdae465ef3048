// Training checkpoints: everything a run needs to continue as if it had not stopped, in one file.
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

// A possible part of a checkpoint: modules, optimizers, schedulers, GradScaler, loaders, and your
// own types. load_state_dict throws an Error if the state does not fit, and then changes nothing.
// After any other exception the part is given the result of its earlier state_dict() again.
template <class T>
concept Stateful = requires(T& part, const StateDict& state) {
  { part.state_dict() } -> std::convertible_to<StateDict>;
  part.load_state_dict(state);
};

// A reference to a Stateful object, or to nothing.
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

// The parts to save or to load. Parts that are not given are not saved, or left unchanged.
struct CheckpointParts {
  StatefulRef model = {}, optimizer = {}, scheduler = {}, scaler = {};
  StatefulRef loader = {};                                       // position in the data
  std::vector<std::pair<std::string, StatefulRef>> others = {};  // names must not contain dots
  // Generators besides the calling thread's own, which is always saved.
  std::vector<std::pair<std::string, Generator>> generators = {};
  // Whether loading also sets the calling thread's generator. By default it does if an optimizer is
  // given, because the run then continues, and does not if only weights are loaded.
  std::optional<bool> thread_generator = std::nullopt;
};

// Your own numbers and texts.
struct CheckpointValues {
  std::map<std::string, double> numbers = {};
  std::map<std::string, std::string> texts = {};
};

// Writes a safetensors file with the parts' tensors ("model.<name>", "optimizer.<name>", ...) and,
// as metadata, the values, a checksum of each tensor, and the algorithms that were chosen by timing
// on this machine. The file at `path` is unchanged until the new one is complete, even if the
// process is killed.
//   save_checkpoint("run.ckpt", {.model = model, .optimizer = optimizer, .scheduler = scheduler},
//                   {.numbers = {{"epoch", 3}}});
VOLTA_API void save_checkpoint(const std::string& path, const CheckpointParts& parts,
                               const CheckpointValues& values = {});

// Loads every given part and returns the values. On the same device, with the same build and number
// of threads, the continued run computes the same bits as a run without the stop. Load before the
// first step, so that the timed choices apply from the start. If something does not fit, one
// ArgumentError lists all differences of all parts and nothing is changed. An exception of another
// type from one of your own parts is nested in it (std::rethrow_if_nested). Throws IoError for
// files that are not checkpoints, and for a tensor whose bytes differ from those that were saved.
VOLTA_API CheckpointValues load_checkpoint(const std::string& path, const CheckpointParts& parts);

}  // namespace volta
