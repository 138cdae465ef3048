// Writes values as text, and the files of VOLTA_DUMP_PASSES.
#include "plan/passes/dump.h"

#include <exception>
#include <filesystem>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/registry.h"
#include "core/log_once.h"
#include "plan/calls/call.h"
#include "platform/env.h"
#include "platform/files.h"

namespace volta::plan {
namespace {

const std::optional<std::string>& folder() {
  static const auto& folder =
      *new std::optional<std::string>(platform::environment("VOLTA_DUMP_PASSES"));
  return folder;
}

const char* name_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::Leaf:
      return "Leaf";
    case ValueKind::Const:
      return "Const";
    case ValueKind::Arg:
      return "Arg";
    case ValueKind::Size:
      return "Size";
    case ValueKind::Iota:
      return "Iota";
    case ValueKind::Philox:
      return "Philox";
    case ValueKind::Scalar:
      return "Scalar";
    case ValueKind::Cast:
      return "Cast";
    case ValueKind::Bounded:
      return "Bounded";
    case ValueKind::Reshape:
      return "Reshape";
    case ValueKind::Permute:
      return "Permute";
    case ValueKind::Expand:
      return "Expand";
    case ValueKind::Shrink:
      return "Shrink";
    case ValueKind::Affine:
      return "Affine";
    case ValueKind::Pad:
      return "Pad";
    case ValueKind::Reduce:
      return "Reduce";
    case ValueKind::Scan:
      return "Scan";
    case ValueKind::Gather:
      return "Gather";
    case ValueKind::Search:
      return "Search";
    case ValueKind::Call:
      return "Call";
    case ValueKind::StepResult:
      return "StepResult";
    case ValueKind::Placed:
      return "Placed";
    case ValueKind::Join:
      return "Join";
  }
  return "";
}

const char* name_of(kernel::ReduceOp op) {
  switch (op) {
    case kernel::ReduceOp::Sum:
      return "sum";
    case kernel::ReduceOp::Prod:
      return "prod";
    case kernel::ReduceOp::Max:
      return "max";
    case kernel::ReduceOp::Min:
      return "min";
    case kernel::ReduceOp::ArgMax:
      return "argmax";
    case kernel::ReduceOp::ArgMin:
      return "argmin";
  }
  return "";
}

// Returns for example "Scalar.add".
std::string name_of(const Value& v) {
  std::string name = name_of(v.kind);
  if (v.kind == ValueKind::Scalar) name += fmt::format(".{}", kernel::info(v.op).name);
  if (v.kind == ValueKind::Reduce) name += fmt::format(".{}", name_of(v.reduce));
  if (v.kind == ValueKind::Call) name += fmt::format(".{}", v.call->name());
  return name;
}

// Returns for example "%12 = Scalar.add f32 [7, 5] (%3, %11) <linear>".
std::string line_of(ValueId id, const Value& v) {
  std::string line = fmt::format("%{} = {} {} {}", static_cast<int>(id), name_of(v),
                                 to_string(v.dtype), to_string(v.shape.hint()));
  std::string operands;
  for (std::size_t k = 0; k < v.in.size(); ++k) {
    // An operand may be absent although a later one is present.
    if (v.in[k].is_none()) continue;
    if (!operands.empty()) operands += ", ";
    if (k > 0 && v.in[k - 1].is_none()) operands += fmt::format("{}: ", k);
    operands += fmt::format("%{}", static_cast<int>(v.in[k]));
  }
  if (!operands.empty()) line += fmt::format(" ({})", operands);
  if (!v.attrs.empty()) line += fmt::format(" attrs={}", hints(v.attrs));
  if (v.kind == ValueKind::Const) line += fmt::format(" {}", v.constant);
  if (v.kind == ValueKind::Pad) line += fmt::format(" fill={}", v.constant);
  if (v.number >= 0) line += fmt::format(" number={}", v.number);
  if (v.epoch != 0) line += fmt::format(" epoch={}", v.epoch);
  if (v.phase != 0) line += fmt::format(" phase={}", v.phase);
  if (v.stored) line += " stored";
  if (!v.home.is_none()) {
    line += fmt::format(" in %{} at {} strides={}", static_cast<int>(v.home), v.home_offset.hint(),
                        hints(v.home_strides));
  }
  if (*v.label != 0) line += fmt::format(" <{}>", v.label);
  return line;
}

// Writes a line for each value, then the value of each node that somebody holds.
std::string to_text(const Graph& graph) {
  std::string text;
  for (const ValueId id : graph.values.ids()) text += line_of(id, graph.values[id]) + '\n';
  for (std::size_t n = 0; n < graph.node_values.size(); ++n) {
    const ValueId value = graph.node_values[n];
    if (graph.view->wanted(n) == Wanted::No || value.is_none()) continue;
    text += fmt::format("held: node {} is %{}\n", n, static_cast<int>(value));
  }
  for (const ValueId value : graph.results)
    text += fmt::format("result: %{}\n", static_cast<int>(value));
  return text;
}

}  // namespace

bool dumps_passes() { return folder().has_value(); }

void dump_values(const Graph& graph, const std::string& of, int number, const char* pass,
                 const char* what) {
  try {
    std::filesystem::create_directories(*folder());
    const std::string name = fmt::format("{}.{}-{}.txt", of, number, pass);
    platform::AtomicFile file((std::filesystem::path(*folder()) / name).string());
    file.write(
        fmt::format("# {} on {}, after {}: {}\n", of, to_string(graph.device->device), pass, what) +
        to_text(graph));
    file.commit();
  } catch (const std::exception& error) {
    log_once("pass dump", LogLevel::warning, std::string("VOLTA_DUMP_PASSES: ") + error.what());
  }
}

}  // namespace volta::plan
