// volta convert: copies tensors to another file, with other names or in another format or dtype.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "glob.h"
#include "model_file.h"
#include "output/nearest.h"
#include "output/units.h"
#include "output_file.h"
#include "volta/dtype.h"
#include "volta/error.h"
#include "volta/io/npy.h"
#include "volta/io/state_dict_mapper.h"
#include "volta/ops.h"
#include "volta/safetensors.h"
#include "volta/tensor.h"

namespace volta::cli {
namespace {

namespace fs = std::filesystem;

struct ConvertOptions {
  std::string in, out;
  std::string dtype;
  std::vector<std::string> select, exclude, strip, rename, transpose;
  std::string prefix;
  bool compress = false, force = false;
};

// A rule, with the text that the user wrote for it.
struct Rule {
  std::string option, pattern;
};

// The rules, in the order that the help states.
class Rules {
 public:
  explicit Rules(const ConvertOptions& options) {
    for (const std::string& glob : options.exclude) {
      note("--exclude", glob);
      mapper_.exclude(glob_pattern(glob));
    }
    for (const std::string& prefix : options.strip) {
      note("--strip", prefix);
      mapper_.strip(prefix);
    }
    for (const std::string& pair : options.rename) {
      const std::size_t equals = pair.find('=');
      if (equals == std::string::npos || equals == 0 || equals + 1 == pair.size())
        throw UsageError(fmt::format("--rename: '{}' is not of the form OLD=NEW", pair));
      const std::string from = pair.substr(0, equals), to = pair.substr(equals + 1);
      note("--rename", from);
      mapper_.rename(glob_pattern(from), is_glob(from) ? glob_replacement(to) : to);
    }
    for (const std::string& glob : options.transpose) {
      note("--transpose", glob);
      mapper_.transpose(glob_pattern(glob));
    }
    if (!options.prefix.empty()) {
      note("--prefix", options.prefix);
      mapper_.prefix(options.prefix);
    }
  }

  // Throws if a rule applies to no tensor, because it is mistyped or meant for another file.
  MappedState apply(const StateDict& state) const {
    MappedState mapped = mapper_.map(state);
    if (mapped.unused_rules.empty()) return mapped;
    // The mapper describes rules in its own words, so those of the command line are tried one by
    // one.
    for (const Rule& rule : rules_) {
      if (applies(rule, state)) continue;
      throw ArgumentError(fmt::format("{} {}: no tensor has such a name{}", rule.option,
                                      rule.pattern, suggestion(rule.pattern, names_of(state))));
    }
    throw ArgumentError(fmt::format("{}: no tensor has such a name when it is its turn",
                                    mapped.unused_rules.front()));
  }

 private:
  void note(const char* option, std::string pattern) {
    rules_.push_back({option, std::move(pattern)});
  }
  static bool applies(const Rule& rule, const StateDict& state) {
    return std::ranges::any_of(state, [&](const StateDict::Entry& entry) {
      if (rule.option == "--prefix") return true;
      if (rule.option == "--strip") return entry.first.starts_with(rule.pattern);
      return glob_matches(rule.pattern, entry.first);
    });
  }

  StateDictMapper mapper_;
  std::vector<Rule> rules_;
};

// Returns the tensors that match any --select. Several options are a union, unlike a mapper's
// rules.
StateDict selected(const StateDict& state, const std::vector<std::string>& globs) {
  if (globs.empty()) return state;
  StateDict result;
  for (const std::string& glob : globs) {
    const bool used = std::ranges::any_of(
        state, [&](const StateDict::Entry& entry) { return glob_matches(glob, entry.first); });
    if (!used)
      throw ArgumentError(fmt::format("--select {}: no tensor has such a name{}", glob,
                                      suggestion(glob, names_of(state))));
  }
  for (const auto& [name, tensor] : state) {
    const auto matches = [&name = name](const std::string& glob) {
      return glob_matches(glob, name);
    };
    if (std::ranges::any_of(globs, matches)) result.add(name, tensor);
  }
  return result;
}

// Patterns become regular expressions, which recurse once per character of a name.
void check_names(const StateDict& state) {
  constexpr std::size_t kLongest = 4096;
  for (const auto& [name, tensor] : state) {
    if (name.size() > kLongest)
      throw ArgumentError(
          fmt::format("the name of a tensor has {} bytes; names of more than {} "
                      "cannot be converted",
                      human_count(name.size()), human_count(kLongest)));
  }
}

DType floating_type(const std::string& name) {
  for (const DType type : {DType::f16, DType::bf16, DType::f32})
    if (name_of(type) == name) return type;
  return DType::f64;
}

// Converts floating-point tensors to another dtype; integers and masks are unchanged.
StateDict in_type(const Context& context, const StateDict& state, const std::string& dtype) {
  if (dtype.empty()) return state;
  const DType type = floating_type(dtype);
  StateDict result;
  for (const auto& [name, tensor] : state) {
    if (!is_floating(tensor.dtype()) || tensor.dtype() == type) {
      result.add(name, tensor);
      continue;
    }
    const Tensor converted = tensor.to(type);
    if (tensor.numel() > 0) {
      // The temporaries of this expression are gone before item(), which would otherwise write them
      // to memory.
      const Tensor count = logical_and(converted.isinf(), tensor.isinf().logical_not()).sum();
      const auto lost = static_cast<std::uint64_t>(count.item<std::int64_t>());
      if (lost > 0)
        context.warn(fmt::format("{}: {} too large for {} and became infinite", name,
                                 lost == 1 ? "1 value is" : human_count(lost) + " values are",
                                 dtype));
    }
    result.add(name, converted);
  }
  return result;
}

enum class Format { safetensors, npz };

Format format_of(const std::string& path) {
  const std::string extension = fs::path(path).extension().string();
  if (extension == ".safetensors") return Format::safetensors;
  if (extension == ".npz") return Format::npz;
  if (extension == ".pt" || extension == ".pth" || extension == ".bin")
    throw UsageError(
        fmt::format("{}: PyTorch's format is read but not written; torch loads "
                    ".safetensors through the package safetensors",
                    path));
  throw UsageError(
      fmt::format("{}: the name must end with .safetensors or .npz, which says what to write{}",
                  path, suggestion(extension, {".safetensors", ".npz"})));
}

void refuse_bf16(const StateDict& state, const std::string& path) {
  for (const auto& [name, tensor] : state) {
    if (tensor.dtype() == DType::bf16)
      throw ArgumentError(fmt::format(
          "{}: {} is bf16, which NumPy's files do not have: --dtype f32 converts it", path, name));
  }
}

// Writes one file and nothing else. save() would also remove earlier shards at this path, which may
// be the input here.
void write_one_file(const StateDict& state, const std::string& path,
                    const SafetensorsMetadata& metadata) {
  std::vector<Tensor> held;
  std::vector<TensorData> tensors;
  for (const auto& [name, tensor] : state) {
    held.push_back(tensor.eval());
    tensors.push_back({name, tensor.dtype(), tensor.shape(), held.back().span<std::byte>().data()});
  }
  write_safetensors(path, tensors, metadata);
}

int run_convert(const Context& context, const ConvertOptions& options) {
  const Format format = format_of(options.out);
  if (options.compress && format != Format::npz)
    throw UsageError("--compress: only .npz files are compressed");
  const Rules rules(options);
  check_output(options.out, options.force);

  const ModelFile model = read_model(options.in);
  check_names(model.state);
  const MappedState mapped = rules.apply(selected(model.state, options.select));
  const StateDict state = in_type(context, mapped.state, options.dtype);
  if (format == Format::npz) {
    refuse_bf16(state, options.out);
    save_npz(state, options.out, {.compress = options.compress});
  } else {
    write_one_file(state, options.out, model.metadata);
  }

  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : state)
    bytes += static_cast<std::uint64_t>(tensor.numel()) * size_of(tensor.dtype());
  if (context.json) {
    Json renamed = Json::object();
    for (const auto& [from, to] : mapped.renamed) renamed[from] = to;
    context.print({{"path", options.out},
                   {"tensors", state.size()},
                   {"bytes", bytes},
                   {"renamed", std::move(renamed)},
                   {"dropped", model.state.size() - state.size()}});
  } else if (!context.quiet) {
    const std::size_t dropped = model.state.size() - state.size();
    context.out << wrapped(printable(fmt::format(
                                         "{}: {}, {}{}", options.out,
                                         plural(state.size(), "tensor"), human_bytes(bytes),
                                         dropped == 0 ? "" : fmt::format(", {} left out", dropped)),
                                     context.terminal),
                           context.terminal.columns, 2)
                << '\n';
  }
  return kSuccess;
}

}  // namespace

void add_convert(CLI::App& app, Context& context) {
  const auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = add_command(
      app, "convert",
      "Write the tensors of a file to another: other format, element type, names, layout. The new "
      "file appears when it is complete. Rules apply in this order: select, exclude, strip, "
      "rename, "
      "transpose, prefix; each must fit some tensor",
      "volta convert model.pt model.safetensors\n"
      "volta convert model.safetensors half.safetensors --dtype f16\n"
      "volta convert gpt2.safetensors mine.safetensors --strip transformer. --rename "
      "'h.*=blocks.*'\n"
      "volta convert run.ckpt weights.npz --select 'model.*' --strip model. --compress");
  command->add_option("IN", options->in, "A file or folder, as for volta inspect")->required();
  command->add_option("OUT", options->out, "The new file: .safetensors or .npz")->required();
  command->add_option("--dtype", options->dtype, "Of all floating-point tensors; others stay")
      ->check(one_of({"f16", "bf16", "f32", "f64"}));
  const auto add_list = [&](const char* name, std::vector<std::string>& values, const char* type,
                            const char* text) {
    command->add_option(name, values, text)->type_name(type)->allow_extra_args(false);
  };
  add_list("--select", options->select, "GLOB", "Only these; repeatable, as are the next four");
  add_list("--exclude", options->exclude, "GLOB", "All but these");
  add_list("--strip", options->strip, "TEXT", "Taken from the names that begin with it");
  add_list("--rename", options->rename, "OLD=NEW",
           "OLD is a whole name or a glob, whose wildcards' texts the * of NEW stand for");
  add_list("--transpose", options->transpose, "GLOB", "Exchange the last two axes of these");
  command->add_option("--prefix", options->prefix, "Put before every name")->type_name("TEXT");
  command->add_flag("--compress", options->compress, "Compress an .npz file");
  command->add_flag("--force", options->force, "Replace OUT if it exists");
  add_json(*command, context);
  add_quiet(*command, context);
  on_run(*command, context, [&context, options] { return run_convert(context, *options); });
}

}  // namespace volta::cli
