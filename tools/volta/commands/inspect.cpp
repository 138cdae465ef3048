// volta inspect: the tensors of a file.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "glob.h"
#include "model_file.h"
#include "output/nearest.h"
#include "output/statistics.h"
#include "output/table.h"
#include "output/units.h"
#include "volta/dtype.h"
#include "volta/error.h"
#include "volta/shape.h"
#include "volta/tensor.h"

namespace volta::cli {
namespace {

struct InspectOptions {
  std::string file;
  std::vector<std::string> filters;
  std::string sort;
  bool statistics = false;
};

struct Row {
  std::string name;
  Tensor tensor;
  std::uint64_t bytes = 0;
  std::optional<Statistics> statistics = {};
};

struct Totals {
  std::uint64_t elements = 0, bytes = 0;
  std::map<std::string, std::uint64_t> dtypes;  // number of tensors per dtype
};

std::vector<Row> chosen_rows(const ModelFile& model, const InspectOptions& options) {
  std::vector<Row> rows;
  for (const auto& [name, tensor] : model.state) {
    const auto matches = [&name = name](const std::string& glob) {
      return glob_matches(glob, name);
    };
    if (!options.filters.empty() && std::ranges::none_of(options.filters, matches)) continue;
    rows.push_back(
        {name, tensor, static_cast<std::uint64_t>(tensor.numel()) * size_of(tensor.dtype())});
  }
  if (rows.empty() && !options.filters.empty() && !model.state.empty())
    throw ArgumentError(fmt::format("none of the {} in {} matches --filter {}{}",
                                    plural(model.state.size(), "tensor"), options.file,
                                    fmt::join(options.filters, ", "),
                                    suggestion(options.filters[0], names_of(model.state))));
  if (options.sort == "name") std::ranges::stable_sort(rows, {}, &Row::name);
  if (options.sort == "size") std::ranges::stable_sort(rows, std::greater<>(), &Row::bytes);
  if (options.statistics)
    for (Row& row : rows) row.statistics = statistics_of(row.tensor);
  return rows;
}

Totals totals_of(const std::vector<Row>& rows) {
  Totals totals;
  for (const Row& row : rows) {
    totals.elements += static_cast<std::uint64_t>(row.tensor.numel());
    totals.bytes += row.bytes;
    ++totals.dtypes[std::string(name_of(row.tensor.dtype()))];
  }
  return totals;
}

Json json_of(const Row& row) {
  Json json = {
      {"name", row.name},
      {"dtype", name_of(row.tensor.dtype())},
      {"shape", std::vector<std::int64_t>(row.tensor.shape().begin(), row.tensor.shape().end())},
      {"elements", row.tensor.numel()},
      {"bytes", row.bytes}};
  if (!row.statistics) return json;
  const Statistics& all = *row.statistics;
  Json& told =
      json["statistics"] = {{"nan", all.nans}, {"inf", all.infinities}, {"zeros", all.zeros}};
  const bool integers = is_integral(row.tensor.dtype());
  const auto value = [&](double number, std::int64_t integer) -> Json {
    if (all.finite == 0) return nullptr;
    return integers ? Json(integer) : Json(number);
  };
  told["min"] = value(all.least, all.least_integer);
  told["max"] = value(all.greatest, all.greatest_integer);
  told["mean"] = all.finite == 0 ? Json() : Json(all.mean);
  told["std"] = all.finite == 0 ? Json() : Json(all.deviation);
  return json;
}

void print_json(const Context& context, const InspectOptions& options, const ModelFile& model,
                const std::vector<Row>& rows, const Totals& totals) {
  Json tensors = Json::array();
  for (const Row& row : rows) tensors.push_back(json_of(row));
  context.print({{"path", options.file},
                 {"format", model.format},
                 {"tensors", std::move(tensors)},
                 {"total",
                  {{"tensors", rows.size()},
                   {"elements", totals.elements},
                   {"bytes", totals.bytes},
                   {"dtypes", totals.dtypes}}},
                 {"metadata", model.metadata}});
}

std::vector<std::string> statistics_cells(const Row& row) {
  const Statistics& all = *row.statistics;
  const bool integers = is_integral(row.tensor.dtype());
  const auto value = [&](double number, std::int64_t integer) {
    if (all.finite == 0) return std::string("-");
    return integers ? std::to_string(integer) : human_number(number);
  };
  const auto number = [&](double x) { return all.finite == 0 ? "-" : human_number(x); };
  return {value(all.least, all.least_integer),
          value(all.greatest, all.greatest_integer),
          number(all.mean),
          number(all.deviation),
          human_count(all.zeros),
          human_count(all.nans),
          human_count(all.infinities)};
}

void print_text(const Context& context, const InspectOptions& options, const ModelFile& model,
                const std::vector<Row>& rows, const Totals& totals) {
  const Terminal& terminal = context.terminal;
  std::vector<Column> columns = {{.title = "name", .importance = 10, .shortens = true},
                                 {.title = "dtype", .importance = 5},
                                 {.title = "shape", .importance = 6, .shortens = true},
                                 {.title = "size", .align = Align::right, .importance = 7}};
  if (options.statistics) {
    int importance = 9;
    for (const char* title : {"min", "max", "mean", "std", "zeros", "nan", "inf"}) {
      // Counts are dropped first in narrow terminals; sizes and shapes are available without
      // --stats.
      columns.push_back({.title = title, .align = Align::right, .importance = importance--});
    }
  }
  Table table(columns);
  for (const Row& row : rows) {
    std::vector<std::string> cells = {row.name, std::string(name_of(row.tensor.dtype())),
                                      to_string(row.tensor.shape()), human_bytes(row.bytes)};
    if (row.statistics)
      for (std::string& cell : statistics_cells(row)) cells.push_back(std::move(cell));
    table.add(std::move(cells));
  }
  context.out << wrapped(printable(options.file + ": " + model.format, terminal), terminal.columns,
                         2)
              << '\n';
  if (!table.empty()) table.print(context.out, terminal);
  std::string dtypes;
  for (const auto& [dtype, count] : totals.dtypes)
    dtypes += fmt::format("{}{} {}", dtypes.empty() ? " (" : ", ", count, dtype);
  if (!dtypes.empty()) dtypes += ")";
  context.out << wrapped(fmt::format("{}, {}, {}{}", plural(rows.size(), "tensor"),
                                     plural(totals.elements, "element"), human_bytes(totals.bytes),
                                     dtypes),
                         terminal.columns, 2)
              << '\n';
  if (model.metadata.empty()) return;
  context.out << terminal.bold("metadata") << '\n';
  Table metadata({{.title = "", .importance = 2, .shortens = true},
                  {.title = "", .importance = 1, .shortens = true}});
  for (const auto& [key, value] : model.metadata)
    metadata.add(
        {key, key == "volta.crc32" ? "checksums of the header and of each tensor" : value});
  metadata.print(context.out, terminal, 2);
}

int run_inspect(const Context& context, const InspectOptions& options) {
  const ModelFile model = read_model(options.file, {.allow_unreadable = true});
  const std::vector<Row> rows = chosen_rows(model, options);
  const Totals totals = totals_of(rows);
  (context.json ? print_json : print_text)(context, options, model, rows, totals);
  return kSuccess;
}

}  // namespace

void add_inspect(CLI::App& app, Context& context) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* command = add_command(
      app, "inspect", "Show the tensors of a file: names, types, shapes, sizes, statistics",
      "volta inspect model.safetensors\n"
      "volta inspect checkpoint.pt --stats --filter '*.weight'\n"
      "volta inspect weights.npz --sort size --json | jq .total");
  command
      ->add_option(
          "FILE", options->file,
          "safetensors, npz, npy, PyTorch's .pt, a training checkpoint, an index of shards, "
          "or a folder with a model; told by content")
      ->required();
  command->add_flag(
      "--stats", options->statistics,
      "Least, greatest, mean and standard deviation of the finite values; zeros, NaNs "
      "and infinities counted");
  command->add_option("--filter", options->filters, "Only tensors whose name matches; repeatable")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  command->add_option("--sort", options->sort, "Instead of the order of the file")
      ->check(one_of({"name", "size"}));
  add_json(*command, context);
  on_run(*command, context, [&context, options] { return run_inspect(context, *options); });
}

}  // namespace volta::cli
