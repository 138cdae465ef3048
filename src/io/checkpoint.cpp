// Checkpoints: the state dicts of the parts under prefixes, everything else as metadata.
#include "volta/io/checkpoint.h"
#include "volta/detail/timed_choices.h"

#include <bit>
#include <charconv>
#include <cstdint>
#include <exception>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "encoding/json.h"
#include "io/load_file.h"
#include "io/safetensors/safetensors_checksums.h"
#include "volta/creation.h"
#include "volta/error.h"
#include "volta/safetensors.h"
#include "volta/version.h"

namespace volta {
namespace {

constexpr std::string_view kFormat = "volta.checkpoint", kVersion = "1";
constexpr std::string_view kPart = "part.", kNumber = "number.", kText = "text.";
constexpr const char* kChoices = "timed_choices";
constexpr std::size_t kMaxChoices = 100'000;

// A generator as a part of a checkpoint.
class GeneratorPart {
 public:
  explicit GeneratorPart(Generator generator) : generator_(std::move(generator)) {}

  StateDict state_dict() const {
    const GeneratorState state = generator_.state();
    return {{"state", from_vector<std::int64_t>({std::bit_cast<std::int64_t>(state.seed),
                                                 std::bit_cast<std::int64_t>(state.offset)},
                                                {.device = Device::cpu()})}};
  }
  void load_state_dict(const StateDict& state) const {
    const Tensor* saved = state.find("state");
    if (saved == nullptr || state.size() != 1 || saved->dtype() != DType::i64 ||
        saved->shape() != Shape{2})
      throw ArgumentError("Generator: the state dict does not fit: it has not one i64 [2] 'state'");
    const std::vector<std::int64_t> words = saved->to_vector<std::int64_t>();
    generator_.set_state(
        {std::bit_cast<std::uint64_t>(words[0]), std::bit_cast<std::uint64_t>(words[1])});
  }

 private:
  Generator generator_;
};

struct NamedPart {
  std::string name;
  StatefulRef part;
};

// Lists the given parts in the order of saving and loading. Generators are stored in `made`.
std::vector<NamedPart> named_parts(const char* function, const CheckpointParts& parts,
                                   bool with_thread_generator, std::vector<GeneratorPart>& made) {
  std::vector<NamedPart> result;
  const auto add = [&](std::string name, const StatefulRef& part) {
    if (part) result.push_back({std::move(name), part});
  };
  std::set<std::string> seen;
  const auto add_named = [&](const char* kind, const std::string& name, const StatefulRef& part) {
    if (name.empty() || name.find('.') != std::string::npos)
      throw ArgumentError(fmt::format("{}: '{}' is no name: it must not be empty or contain a dot",
                                      function, name));
    std::string full = fmt::format("{}.{}", kind, name);
    if (!seen.insert(full).second)
      throw ArgumentError(fmt::format("{}: there are two {} called '{}'", function, kind, name));
    add(std::move(full), part);
  };
  add("model", parts.model);
  add("optimizer", parts.optimizer);
  add("scheduler", parts.scheduler);
  add("scaler", parts.scaler);
  add("loader", parts.loader);
  for (const auto& [name, part] : parts.others) add_named("others", name, part);
  made.reserve(parts.generators.size() + 1);  // keeps references into it valid
  for (const auto& [name, generator] : parts.generators)
    add_named("generators", name, made.emplace_back(generator));
  if (with_thread_generator) add("generator", made.emplace_back(Generator()));
  return result;
}

std::string choices_text() {
  std::string text = "{";
  for (const auto& [key, name] : chosen_candidates())
    text += (text.size() > 1 ? "," : "") + io::json_quoted(key) + ":" + io::json_quoted(name);
  return text + "}";
}

std::map<std::string, std::string> choices_of(const std::string& path, const std::string& text) {
  io::JsonReader reader(text, path + ": " + kChoices);
  std::map<std::string, std::string> choices;
  if (reader.kind() != io::JsonReader::Kind::object)
    throw IoError(path + ": timed_choices is not a JSON object");
  reader.begin_object();
  while (const auto next = reader.next_key()) {
    std::string key(*next);
    if (reader.kind() != io::JsonReader::Kind::string)
      throw IoError(path + ": timed_choices holds something other than names");
    if (choices.size() == kMaxChoices)
      throw IoError(fmt::format("{}: timed_choices has more than {} names", path, kMaxChoices));
    choices.emplace(std::move(key), reader.string());
  }
  reader.finish();
  return choices;
}

double number_of(const std::string& path, const std::string& key, const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc() || stop != end)
    throw IoError(fmt::format("{}: {} is no number: {}", path, key, io::json_quoted(text)));
  return value;
}

const std::string& required(const std::string& path, const SafetensorsMetadata& metadata,
                            const std::string& key) {
  const auto found = metadata.find(key);
  if (found == metadata.end())
    throw IoError(fmt::format("{}: not a checkpoint: its metadata has no '{}'", path, key));
  return found->second;
}

void check_format(const std::string& path, const SafetensorsMetadata& metadata) {
  if (required(path, metadata, "format") != kFormat)
    throw IoError(fmt::format("{}: not a checkpoint but '{}'", path, metadata.at("format")));
  if (required(path, metadata, "version") != kVersion)
    throw IoError(fmt::format("{}: a checkpoint of version {}, this library reads {}", path,
                              metadata.at("version"), kVersion));
}

// A checkpoint without checksums either predates them or has a damaged key in their place. In the
// latter case it has a key that no checkpoint has.
void refuse_unknown_keys(const std::string& path, const SafetensorsMetadata& metadata) {
  for (const auto& [key, text] : metadata) {
    const bool known = key == "format" || key == "version" || key == "volta" || key == kChoices ||
                       key.starts_with(kPart) || key.starts_with(kNumber) || key.starts_with(kText);
    if (!known)
      throw IoError(
          fmt::format("{}: the file is damaged: its metadata has {}, which no checkpoint "
                      "has",
                      path, io::json_excerpt(key)));
  }
}

// Returns the tensors under a prefix, with the prefix removed from their names.
StateDict under(const StateDict& all, const std::string& prefix) {
  StateDict result;
  for (const auto& [name, tensor] : all)
    if (name.starts_with(prefix)) result.add(name.substr(prefix.size()), tensor);
  for (const auto& [name, problem] : all.unreadable())
    if (name.starts_with(prefix)) result.add_unreadable(name.substr(prefix.size()), problem);
  return result;
}

// Returns the message of the current exception.
std::string message_in_flight() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

// Loads all parts or none of them.
class PartLoader {
 public:
  void load(const NamedPart& named, const StateDict& state) {
    Touched touched{&named, {}};
    bool known = false;  // `before` is set
    try {
      touched.before = named.part.state_dict();
      known = true;
      named.part.load_state_dict(state);
      touched_.push_back(std::move(touched));
    } catch (const Error& error) {  // the part is unchanged
      complain(named, error.what());
    } catch (...) {
      if (!foreign_) foreign_ = std::current_exception();
      complain(named, message_in_flight());
      if (known) touched_.push_back(std::move(touched));
    }
  }
  void complain(const NamedPart& named, const std::string& problem) {
    problems_ += fmt::format("\n{}: {}", named.name, problem);
  }

  // If a part failed, restores the former state of all parts and throws.
  void finish(const std::string& path) {
    if (problems_.empty()) return;
    const char* outcome = "nothing was changed";
    for (auto undone = touched_.rbegin(); undone != touched_.rend(); ++undone) {
      try {
        undone->part->part.load_state_dict(undone->before);
      } catch (...) {
        outcome = "not everything could be undone";
        complain(*undone->part, "its former state could not be loaded: " + message_in_flight());
      }
    }
    const ArgumentError error(
        fmt::format("load_checkpoint: {} does not fit; {}{}", path, outcome, problems_));
    if (!foreign_) throw error;
    try {
      std::rethrow_exception(foreign_);
    } catch (...) {
      std::throw_with_nested(error);
    }
  }

 private:
  struct Touched {
    const NamedPart* part;
    StateDict before;
  };
  std::vector<Touched> touched_;
  std::string problems_;
  std::exception_ptr foreign_;  // the first exception that is not Volta's
};

void load_parts(const std::string& path, const std::vector<NamedPart>& parts, const StateDict& all,
                const SafetensorsMetadata& metadata) {
  PartLoader loader;
  for (const NamedPart& named : parts) {
    if (metadata.contains(std::string(kPart) + named.name)) {
      loader.load(named, under(all, named.name + "."));
    } else {
      loader.complain(named, "not in the checkpoint");
    }
  }
  loader.finish(path);
}

}  // namespace

void save_checkpoint(const std::string& path, const CheckpointParts& parts,
                     const CheckpointValues& values) {
  std::vector<GeneratorPart> generators;
  StateDict all;
  SaveOptions options;
  for (const auto& [name, part] : named_parts("save_checkpoint", parts, true, generators)) {
    const StateDict state = part.state_dict();
    for (const auto& [key, tensor] : state) all.add(fmt::format("{}.{}", name, key), tensor);
    options.metadata.emplace(std::string(kPart) + name, fmt::format("{} tensors", state.size()));
  }
  options.metadata.emplace(io::kChecksumsKey, "");
  options.metadata.emplace("format", kFormat);
  options.metadata.emplace("version", kVersion);
  options.metadata.emplace("volta", version());
  options.metadata.emplace(kChoices, choices_text());
  for (const auto& [name, number] : values.numbers)
    options.metadata.emplace(std::string(kNumber) + name, fmt::format("{}", number));
  for (const auto& [name, text] : values.texts)
    options.metadata.emplace(std::string(kText) + name, text);
  save(all, path, options);
}

CheckpointValues load_checkpoint(const std::string& path, const CheckpointParts& parts) {
  std::vector<GeneratorPart> generators;
  const bool goes_on = parts.thread_generator.value_or(static_cast<bool>(parts.optimizer));
  const std::vector<NamedPart> named = named_parts("load_checkpoint", parts, goes_on, generators);
  const SafetensorsFile file(path);
  const SafetensorsMetadata& metadata = file.metadata();
  const bool checked = io::Checksums(file).has_any();  // throws if the metadata is damaged
  check_format(path, metadata);
  if (!checked) refuse_unknown_keys(path, metadata);
  CheckpointValues values;
  for (const auto& [key, text] : metadata) {
    if (key.starts_with(kNumber)) {
      values.numbers.emplace(key.substr(kNumber.size()), number_of(path, key, text));
    } else if (key.starts_with(kText)) {
      values.texts.emplace(key.substr(kText.size()), text);
    }
  }
  const auto choices = choices_of(path, required(path, metadata, kChoices));
  StateDict all;
  io::load_file(file, {}, all);
  load_parts(path, named, all, metadata);
  adopt_candidates(choices);
  return values;
}

}  // namespace volta
