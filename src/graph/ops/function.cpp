// User-defined functions: formulas as operations.
#include "volta/function.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "graph/record/apply.h"
#include "graph/record/autocast.h"
#include "graph/record/formula.h"
#include "graph/record/op.h"
#include "volta/error.h"

namespace volta {
namespace graph {

Tensor apply_formula(OpId op, std::span<const Operand> arguments, const char* name) {
  const Op& row = op_info(op);
  if (name == nullptr) name = row.name;
  const ParsedFormula& formula = parsed_formula(op);
  const Operand* first = nullptr;
  for (const Operand& argument : arguments) {
    if (argument.is_scalar()) continue;
    require_defined(name, argument.tensor(), "an argument");
    if (first == nullptr) first = &argument;
  }
  if (first == nullptr) throw ArgumentError(fmt::format("{}: no argument is a tensor", name));
  const SourceLocation place = first->place();
  DType dtype = result_dtype(arguments);
  // Decided before numbers are converted, which would otherwise be rounded to f16 or bf16.
  if (in_autocast() && row.autocast == AutocastRule::full) dtype = without_halves(dtype);
  if (!is_floating(dtype) && formula.value.needs_floats()) dtype = DType::f32;

  std::vector<Tensor> inputs(arguments.size());
  Shape shape = first->tensor().shape();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].is_scalar()) continue;
    const Tensor& given = arguments[i].tensor();
    inputs[i] = given.dtype() == dtype ? given : given.to(dtype, place);
    shape = broadcast_shapes(name, shape, given.shape());
  }
  // Numbers do not take part in the choice of the device.
  std::vector<Tensor> tensors;
  for (const Tensor& input : inputs) {
    if (input.defined()) tensors.push_back(input);
  }
  agree_on_device(name, tensors, place);
  DeviceEntry& entry = entry_of(tensors.front());
  auto next = tensors.begin();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    inputs[i] = arguments[i].is_scalar() ? operand_number(name, arguments[i].scalar(), dtype, entry)
                                         : std::move(*next++);
  }
  if (row.vjp == nullptr && grad_mode() &&
      std::any_of(inputs.begin(), inputs.end(),
                  [](const Tensor& t) { return t.requires_grad(); })) {
    // The formula has no gradient texts, so its steps are recorded one by one and differentiated.
    std::vector<Operand> values;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      values.push_back(arguments[i].is_scalar() ? arguments[i] : Operand(inputs[i], place));
    if (const Tensor result = evaluate(formula.value, values, place); result.defined())
      return expand_to(result, shape, place);
  }
  return apply(op, inputs, {}, shape, formula.value.gives_truth() ? DType::boolean : dtype, place);
}

namespace {

bool is_name(const std::string& text) {
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  return !text.empty() && (is_letter(text[0]) || text[0] == '_') &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
         });
}

void require_parameters(const ScalarFunctionOptions& options) {
  const std::vector<std::string> names = parameter_names(options.parameters);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    const auto refuse = [&](const char* why) {
      throw ArgumentError(fmt::format("{}: \"{}\" {} (parameters \"{}\")", options.name, name, why,
                                      options.parameters));
    };
    if (!is_name(name)) refuse("is not a name");
    if (name == "y" || name == "g") refuse("is the result's or its gradient's name");
    if (name == "pi" || name == "inf") refuse("is a number's name");
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), name) !=
        names.begin() + static_cast<std::ptrdiff_t>(i)) {
      refuse("is there twice");
    }
  }
  if (options.gradients.size() > names.size()) {
    throw ArgumentError(fmt::format("{}: {} gradients for {} parameters", options.name,
                                    options.gradients.size(), names.size()));
  }
}

}  // namespace
}  // namespace graph

ScalarFunction::ScalarFunction(const ScalarFunctionOptions& options) {
  graph::require_parameters(options);
  op_ = static_cast<int>(graph::register_formula(options.name, options.parameters, options.formula,
                                                 options.gradients));
}

Tensor ScalarFunction::call(std::span<const Operand> arguments) const {
  const auto op = static_cast<graph::OpId>(op_);
  const std::size_t wanted = graph::parsed_formula(op).names.size() - 2;
  if (arguments.size() != wanted) {
    throw ArgumentError(fmt::format("{}: takes {} arguments, not {}", graph::op_info(op).name,
                                    wanted, arguments.size()));
  }
  return graph::apply_formula(op, arguments);
}

}  // namespace volta
