// volta compare: the differences between two files of tensors.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "command.h"
#include "model_file.h"
#include "output/statistics.h"
#include "output/table.h"
#include "output/units.h"
#include "volta/dtype.h"
#include "volta/shape.h"
#include "volta/tensor.h"

namespace volta::cli {
namespace {

struct CompareOptions {
  std::string a, b;
  Tolerance tolerance;
  bool any_dtype = false;
};

// A tensor that both files have.
struct Pair {
  std::string name;
  Tensor a, b;
  bool other_dtype = false, other_shape = false;
  Difference difference = {};

  bool differs() const { return other_dtype || other_shape || difference.differing > 0; }
};

struct Comparison {
  std::vector<std::string> only_a, only_b;
  std::vector<Pair> pairs;  // worst first
  std::size_t equal = 0;

  bool differs() const { return !only_a.empty() || !only_b.empty() || equal < pairs.size(); }
};

Comparison compared(const StateDict& a, const StateDict& b, const CompareOptions& options) {
  Comparison result;
  for (const auto& [name, tensor] : a) {
    const Tensor* other = b.find(name);
    if (other == nullptr) {
      result.only_a.push_back(name);
      continue;
    }
    Pair pair{.name = name, .a = tensor, .b = *other};
    pair.other_shape = tensor.shape() != other->shape();
    pair.other_dtype = !options.any_dtype && tensor.dtype() != other->dtype();
    if (!pair.other_shape) pair.difference = difference_of(tensor, *other, options.tolerance);
    if (!pair.differs()) ++result.equal;
    result.pairs.push_back(std::move(pair));
  }
  for (const auto& [name, tensor] : b)
    if (!a.contains(name)) result.only_b.push_back(name);
  std::ranges::stable_sort(result.pairs, [](const Pair& one, const Pair& other) {
    const auto key = [](const Pair& pair) {
      return std::tuple(pair.other_shape, pair.differs(), pair.difference.absolute);
    };
    return key(one) > key(other);
  });
  return result;
}

std::string kind_of(const Tensor& tensor) {
  return fmt::format("{} {}", name_of(tensor.dtype()), to_string(tensor.shape()));
}

Json json_of(const Tensor& tensor) {
  return {{"dtype", name_of(tensor.dtype())},
          {"shape", std::vector<std::int64_t>(tensor.shape().begin(), tensor.shape().end())}};
}

void print_json(const Context& context, const CompareOptions& options,
                const Comparison& comparison) {
  Json pairs = Json::array();
  for (const Pair& pair : comparison.pairs) {
    Json json = {{"name", pair.name},
                 {"equal", !pair.differs()},
                 {"a", json_of(pair.a)},
                 {"b", json_of(pair.b)}};
    if (!pair.other_shape) {
      json["differing_elements"] = pair.difference.differing;
      json["max_absolute"] = json_number(pair.difference.absolute);
      json["max_relative"] = json_number(pair.difference.relative);
    }
    pairs.push_back(std::move(json));
  }
  context.print({{"a", options.a},
                 {"b", options.b},
                 {"rtol", options.tolerance.relative},
                 {"atol", options.tolerance.absolute},
                 {"equal", !comparison.differs()},
                 {"only_in_a", comparison.only_a},
                 {"only_in_b", comparison.only_b},
                 {"tensors", std::move(pairs)}});
}

void print_text(const Context& context, const CompareOptions& options,
                const Comparison& comparison) {
  const Terminal& terminal = context.terminal;
  const auto list = [&](const std::vector<std::string>& names, const std::string& file) {
    if (names.empty()) return;
    context.out << wrapped(fmt::format("{} only in {}:", plural(names.size(), "tensor"),
                                       printable(file, terminal)),
                           terminal.columns, 2)
                << '\n';
    Table table({{.title = "", .shortens = true}});
    for (const std::string& name : names) table.add({name});
    table.print(context.out, terminal, 2);
  };
  list(comparison.only_a, options.a);
  list(comparison.only_b, options.b);

  Table kinds({{.title = "name", .importance = 3, .shortens = true},
               {.title = "first", .importance = 2, .shortens = true},
               {.title = "second", .importance = 1, .shortens = true}});
  Table values({{.title = "name", .importance = 4, .shortens = true},
                {.title = "differing", .align = Align::right, .importance = 1},
                {.title = "max abs", .align = Align::right, .importance = 3},
                {.title = "max rel", .align = Align::right, .importance = 2}});
  for (const Pair& pair : comparison.pairs) {
    if (pair.other_shape || pair.other_dtype)
      kinds.add({pair.name, kind_of(pair.a), kind_of(pair.b)});
    if (pair.difference.differing > 0)
      values.add({pair.name, fmt::format("{}/{}", pair.difference.differing, pair.a.numel()),
                  human_number(pair.difference.absolute), human_number(pair.difference.relative)});
  }
  if (!kinds.empty()) {
    context.out << "types or shapes differ:\n";
    kinds.print(context.out, terminal, 2);
  }
  if (!values.empty()) {
    context.out << "values differ:\n";
    values.print(context.out, terminal, 2);
  }
  if (comparison.pairs.empty()) {
    const bool none = comparison.only_a.empty() && comparison.only_b.empty();
    context.out << wrapped(none ? "Neither file has a tensor."
                                : "No tensor is in both files: there is nothing to compare.",
                           terminal.columns, 2)
                << '\n';
    return;
  }
  context.out << wrapped(fmt::format("{} of {} in both equal within rtol {} and atol {}",
                                     comparison.equal, plural(comparison.pairs.size(), "tensor"),
                                     options.tolerance.relative, options.tolerance.absolute),
                         terminal.columns, 2)
              << '\n';
}

int run_compare(const Context& context, const CompareOptions& options) {
  const ModelFile a = read_model(options.a), b = read_model(options.b);
  const Comparison comparison = compared(a.state, b.state, options);
  if (context.json) {
    print_json(context, options, comparison);
  } else if (!context.quiet) {
    print_text(context, options, comparison);
  }
  return comparison.differs() ? kFailure : kSuccess;
}

}  // namespace

void add_compare(CLI::App& app, Context& context) {
  const auto options = std::make_shared<CompareOptions>();
  CLI::App* command = add_command(
      app, "compare",
      "Compare the tensors of two files, of any formats. Exits with 0 where names, types, shapes "
      "and "
      "values agree, with 1 where they do not",
      "volta compare before.safetensors after.safetensors\n"
      "volta compare model.pt model.safetensors --rtol 1e-5 --atol 1e-8\n"
      "volta compare f32.safetensors f16.safetensors --any-dtype --rtol 1e-3 --quiet && echo same");
  command->add_option("A", options->a, "A file or folder, as for volta inspect")->required();
  command->add_option("B", options->b, "Another; differences are relative to its values")
      ->required();
  command
      ->add_option("--rtol", options->tolerance.relative,
                   "Elements agree where |a - b| <= atol + rtol |b|; NaNs agree")
      ->check(at_least(0))
      ->capture_default_str();
  command->add_option("--atol", options->tolerance.absolute, "The other part of the tolerance")
      ->check(at_least(0))
      ->capture_default_str();
  command->add_flag("--any-dtype", options->any_dtype, "Different element types are no difference");
  add_json(*command, context);
  add_quiet(*command, context);
  on_run(*command, context, [&context, options] { return run_compare(context, *options); });
}

}  // namespace volta::cli
