// Generates docs/ops.md: from signatures and comments of the headers, formulas of
// graph/record/elementwise.def, the texts of op_texts.def, and the dtypes and steps measured by
// calling every operation.
//   VOLTA_UPDATE_DOCS=1 volta_tests --gtest_filter='OpsPage.*'    writes the page anew
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "graph/record/formula.h"
#include "graph/record/observer.h"
#include "graph/record/op.h"
#include "ops/op_calls.h"
#include "ops/op_declarations.h"
#include "plan/every_program.h"
#include "plan/expand/rules.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

using graph::OpId;

// ---- Texts.

// Values, and gradients by a rule, that are computed by other code; the texts only describe them.
struct ScalarText {
  std::string name, parameters, value;
  std::vector<std::string> gradients;
};
const std::vector<ScalarText>& scalar_texts() {
  static const std::vector<ScalarText> all = {
#define VOLTA_ELEMENTWISE(name, function, autocast, comment, parameters, value, ...) \
  {#name, parameters, value, {__VA_ARGS__}},
#define VOLTA_FORMULA(...)
#include "graph/record/elementwise.def"
  };
  return all;
}

struct Words {
  std::string value, gradient;
};
const std::map<std::string, Words>& words() {
  static const std::map<std::string, Words> all = {
#define VOLTA_TEXT(name, value, gradient) {#name, {value, gradient}},
#define VOLTA_ROW(...)
#include "graph/record/op_texts.def"
#undef VOLTA_TEXT
#undef VOLTA_ROW
  };
  return all;
}

struct Row {
  std::string name, text;
};
const std::map<OpId, Row>& named_rows() {
  static const std::map<OpId, Row> all = {
#define VOLTA_TEXT(...)
#define VOLTA_ROW(id, text) {OpId::id, {#id, text}},
#include "graph/record/op_texts.def"
#undef VOLTA_ROW
#undef VOLTA_TEXT
  };
  return all;
}

const graph::Op& row_of(OpId id) { return graph::op_table.at(static_cast<std::size_t>(id)); }

std::string row_name(OpId id) {
  const auto found = named_rows().find(id);
  return found != named_rows().end() ? found->second.name : row_of(id).name;
}

std::string joined(const std::vector<std::string>& parts, const std::string& between) {
  std::string all;
  for (const std::string& part : parts) all += (all.empty() ? "" : between) + part;
  return all;
}
std::string code(const std::string& text) { return "`" + text + "`"; }

std::vector<std::string> names_of(const std::string& parameters) {
  std::vector<std::string> names;
  std::istringstream stream(parameters);
  for (std::string name; std::getline(stream, name, ',');)
    names.push_back(name.substr(name.find_first_not_of(' ')));
  return names;
}

std::string gradients_text(const std::string& parameters,
                           const std::vector<std::string>& gradients) {
  if (gradients.empty()) return "none";
  const std::vector<std::string> names = names_of(parameters);
  if (names.size() == 1) return code(gradients[0]);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    parts.push_back(names.at(i) + ": " + code(gradients[i]));
  return joined(parts, "; ");
}

// ---- Measurements.

class RecordedOps final : public graph::RecordingObserver {
 public:
  RecordedOps() : before_(graph::recording_observer()) { graph::recording_observer() = this; }
  ~RecordedOps() override { graph::recording_observer() = before_; }
  void recorded(OpId op, std::span<const graph::Borrowed>, Tensor&, SourceLocation) override {
    if (std::find(ops.begin(), ops.end(), op) == ops.end()) ops.push_back(op);
  }
  void differentiated(const graph::Tape&, std::size_t, Tensor&) override {}

  std::vector<OpId> ops;

 private:
  graph::RecordingObserver* before_;
};

constexpr std::array kDTypes{DType::f16, DType::bf16, DType::f32, DType::f64,
                             DType::i32, DType::i64,  DType::u8,  DType::boolean};

// The dtype of the first result if the inputs of a role have a dtype; nothing if the call is
// refused.
std::optional<DType> result_of(const calls::Call& call, const std::vector<DType>& dtypes) {
  calls::Tensors inputs;
  for (std::size_t i = 0; i < dtypes.size(); ++i)
    inputs.push_back(calls::made(call.inputs[i], dtypes[i], Device::cpu()));
  try {
    const calls::Tensors results = call.function(inputs);
    for (const Tensor& result : results) result.eval();
    return results.at(0).dtype();
  } catch (const DTypeError&) {
    return std::nullopt;
  }
}
std::optional<DType> result_with(const calls::Call& call, calls::Input::Role role, DType dtype) {
  std::vector<DType> dtypes;
  for (const calls::Input& input : call.inputs)
    dtypes.push_back(input.role == role ? dtype : calls::usual_dtype(input));
  return result_of(call, dtypes);
}

// "floats, i64": a class of dtypes is named if it is complete.
std::string dtype_names(const std::vector<DType>& dtypes) {
  const auto has = [&](DType dtype) {
    return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
  };
  std::vector<std::string> names;
  const auto add_class = [&](const std::string& name, const std::vector<DType>& members) {
    const bool whole = std::all_of(members.begin(), members.end(), has);
    if (whole) names.push_back(name);
    for (const DType dtype : members) {
      if (!whole && has(dtype)) names.emplace_back(name_of(dtype));
    }
  };
  if (dtypes.size() == kDTypes.size()) return "all";
  add_class("floats", {DType::f16, DType::bf16, DType::f32, DType::f64});
  add_class("integers", {DType::i32, DType::i64, DType::u8});
  add_class("bool", {DType::boolean});
  return joined(names, ", ");
}

std::size_t count_of(const calls::Call& call, calls::Input::Role role) {
  return static_cast<std::size_t>(
      std::count_if(call.inputs.begin(), call.inputs.end(),
                    [&](const calls::Input& input) { return input.role == role; }));
}

std::string values_text(const calls::Call& call) {
  std::vector<std::string> outcomes;
  std::map<std::string, std::vector<DType>> by_outcome;
  for (const DType dtype : kDTypes) {
    const std::optional<DType> result = result_with(call, calls::Input::Role::value, dtype);
    const std::string outcome = !result                ? " refused"
                                : !call.result.empty() ? " → " + call.result
                                : *result == dtype     ? " → the same"
                                                       : " → " + std::string(name_of(*result));
    if (by_outcome[outcome].empty()) outcomes.push_back(outcome);
    by_outcome[outcome].push_back(dtype);
  }
  // If the dtype's own result equals that of the others (f32 or bool), it is not listed separately.
  for (const std::string& outcome : outcomes) {
    const auto same = by_outcome.find(" → the same");
    if (same == by_outcome.end() || same->second.size() != 1 || outcomes.size() != 2) break;
    if (outcome == " → " + std::string(name_of(same->second[0]))) {
      by_outcome[outcome] = {kDTypes.begin(), kDTypes.end()};
      outcomes = {outcome};
      break;
    }
  }
  std::vector<std::string> parts;
  for (const std::string& outcome : outcomes)
    parts.push_back(dtype_names(by_outcome[outcome]) + outcome);
  return joined(parts, "; ");
}

// Describes the result of f32 combined with f64.
std::string mixture_text(const calls::Call& call) {
  std::vector<DType> dtypes;
  bool first = true;
  for (const calls::Input& input : call.inputs) {
    const bool value = input.role == calls::Input::Role::value;
    dtypes.push_back(value && !first ? DType::f64 : calls::usual_dtype(input));
    first = first && !value;
  }
  const std::optional<DType> result = result_of(call, dtypes);
  if (!result) return "operands of one dtype";
  return *result == DType::f32 ? "in the dtype of the first operand" : "operands promote";
}

std::string accepted_text(const calls::Call& call, calls::Input::Role role) {
  std::vector<DType> accepted;
  for (const DType dtype : kDTypes) {
    if (result_with(call, role, dtype)) accepted.push_back(dtype);
  }
  return dtype_names(accepted);
}

std::vector<std::string> dtype_texts(const calls::Call& call) {
  std::vector<std::string> parts;
  const std::size_t values = count_of(call, calls::Input::Role::value);
  if (values > 0) parts.push_back(values_text(call));
  if (values > 1 && call.result.empty()) parts.push_back(mixture_text(call));
  if (count_of(call, calls::Input::Role::index) > 0)
    parts.push_back("indices: " + accepted_text(call, calls::Input::Role::index));
  if (count_of(call, calls::Input::Role::mask) > 0)
    parts.push_back("mask: " + accepted_text(call, calls::Input::Role::mask));
  return parts;
}

// Evaluates everything else that is pending, because it would be among the steps.
calls::Tensors lone_inputs(const calls::Call& call, Device device) {
  calls::Tensors inputs = calls::usual_inputs(call, device);
  submit(device);
  return inputs;
}

// Kinds of the steps that computing the results takes; of a loop, of those that it runs.
std::set<std::string> steps_of(const calls::Tensors& results) {
  std::set<std::string> kinds;
  for (const StepInfo& step : explain(std::span<const Tensor>(results)).steps) {
    if (step.body.empty()) kinds.insert(step.kind);
    for (const StepInfo& one : step.body) kinds.insert(one.kind);
  }
  return kinds;
}

std::string backends_text(const std::set<std::string>& kinds) {
  static const std::map<std::string, std::string> texts = {
      {"kernel", "kernel on cpu, cuda, opencl"},
      {"matmul", "oneDNN on cpu, cuBLASLt on cuda (a bias with it), product kernels on opencl"},
      {"convolution", "oneDNN on cpu, cuDNN on cuda, kernels and products on opencl"},
      {"sort", "sort on cpu, sort kernels on cuda and opencl"},
  };
  if (kinds.empty()) return "no step of its own";
  std::vector<std::string> parts;
  for (const std::string& kind : kinds) parts.push_back(texts.at(kind));
  return joined(parts, "; ");
}

template <class T>
void add_new(std::vector<T>& all, const T& one) {
  if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
}

struct Measured {
  std::vector<OpId> ops;  // the recorded operations
  // The texts on dtypes for each form of the call; the first text, on values, identifies a form.
  std::vector<std::vector<std::string>> dtypes;
  std::set<std::string> steps;
};
Measured measured(const std::string& name) {
  Measured all;
  for (const calls::Call* call : calls::of(name)) {
    const std::vector<std::string> texts = dtype_texts(*call);
    auto form = std::find_if(all.dtypes.begin(), all.dtypes.end(),
                             [&](const auto& known) { return known[0] == texts[0]; });
    if (form == all.dtypes.end()) form = all.dtypes.insert(form, {texts[0]});
    for (const std::string& text : texts) add_new(*form, text);
    const calls::Tensors inputs = lone_inputs(*call, Device::cpu());
    RecordedOps seen;
    const std::set<std::string> steps = steps_of(call->function(inputs));
    all.steps.insert(steps.begin(), steps.end());
    for (const OpId op : seen.ops) add_new(all.ops, op);
  }
  return all;
}

// ---- The page.

class Page {
 public:
  std::string text() {
    add_head();
    for (const declarations::Group& group : declarations::public_operations()) add_group(group);
    add_rows();
    return text_.str();
  }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void add_head() {
    text_
        << "# Operations\n\n"
           "Made by `tests/ops/ops_page_test.cpp` from `include/volta/ops.h` and `tensor.h`, "
           "`src/graph/record/elementwise.def`, `op_texts.def` and `op_table.cpp`; dtypes, "
           "recorded "
           "rows and "
           "steps are measured by calling every operation. The test fails where this page is not "
           "what it would write; `VOLTA_UPDATE_DOCS=1 volta_tests --gtest_filter='OpsPage.*'` "
           "writes it anew.\n\n"
           "An entry has the signatures (every operation also takes the `SourceLocation` it was "
           "called at), "
           "what the header says, the value, the gradient of each operand (`y` is the result, `g` "
           "its gradient; broadcast operands get theirs summed back; of reductions `h` is `g` with "
           "the "
           "reduced axes as size 1), which dtypes give which (how "
           "operands promote: `docs/dtypes.md`), the rows of the op table that a call records, and "
           "what computes it:\n\n"
           "| step | cpu | cuda | opencl |\n"
           "| --- | --- | --- | --- |\n"
           "| kernel | generated: vector loops over blocks | generated: CUDA C, compiled by NVRTC "
           "| generated: OpenCL C, compiled by the driver |\n"
           "| product | library: oneDNN (f64, and builds without it: a packed product of our own) "
           "| library: cuBLASLt | product kernels of our own |\n"
           "| convolution | library: oneDNN (f64, and without it: windows and products) "
           "| library: cuDNN (f64, and without it: windows and products) "
           "| windows and products |\n"
           "| sort | a sort of our own | sort kernels of our own | the same |\n"
           "| fallback | none | none | none |\n\n"
           "Every operation fuses with what is around it into kernels; movement is index "
           "arithmetic in them. Small products, and those of integers, are kernels on every "
           "device. Nothing that belongs to a device runs on another "
           "(`OpCalls.NothingFallsBackToTheCpu`).\n";
  }

  void add_group(const declarations::Group& group) {
    static const std::map<std::string, std::string> titles = {
        {"Copies and conversions", "Methods: copies and conversions"},
        {"In place", "Methods: in place"},
        {"Parts", "Methods: parts"},
        {"Operations as methods", "Methods: movement"},
    };
    const auto method = titles.find(group.title);
    text_ << "\n## " << (method == titles.end() ? group.title : method->second) << "\n";
    const bool says_more = group.introduction.size() > group.title.size() + 1;
    if (method == titles.end() && says_more) text_ << group.introduction << "\n";
    for (const declarations::Operation& operation : group.operations) add_operation(operation);
  }

  void add_operation(const declarations::Operation& operation) {
    const Measured seen = measured(operation.name);
    text_ << "\n### " << operation.name << "\n";
    std::vector<std::string> lines;
    for (const std::string& type : operation.types) lines.push_back(code(type));
    for (const std::string& signature : operation.signatures) lines.push_back(code(signature));
    std::vector<std::string> sentences;
    for (const std::string& comment : operation.comments) sentences.push_back(sentence(comment));
    if (!sentences.empty()) lines.push_back(joined(sentences, " "));
    text_ << joined(lines, "<br>\n") << "\n";
    add_formulas(operation.name, seen);
    std::vector<std::string> forms;
    for (const auto& form : seen.dtypes) forms.push_back(joined(form, "; "));
    text_ << "- dtypes: " << joined(forms, " — in another form: ") << "\n";
    std::vector<std::string> rows;
    for (const OpId op : seen.ops) {
      rows.push_back(code(row_name(op)));
      recorded_by_[op].push_back(operation.name);
    }
    text_ << "- " << (rows.empty() ? "" : "records " + joined(rows, ", ") + "; ")
          << backends_text(seen.steps) << "\n";
  }

  // Turns a comment into a sentence; a single word is the name of another operation.
  static std::string sentence(std::string text) {
    const bool whole = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos;
    if (whole) return "The same as " + code(text) + ".";
    const std::size_t word = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz");
    if (word > 1 && text[word] == ' ') text[0] = static_cast<char>(std::toupper(text[0]));
    return text + (text.back() == '.' ? "" : ".");
  }

  void add_formulas(const std::string& name, const Measured& seen) {
    bool any = false;
    const auto add = [&](const std::string& form, const std::string& value,
                         const std::string& gradient) {
      text_ << "- value" << form << ": " << value << "\n- gradient" << form << ": " << gradient
            << "\n";
      any = true;
    };
    for (const ScalarText& text : scalar_texts()) {
      if (text.name == name)
        add("", code(text.value), gradients_text(text.parameters, text.gradients));
    }
    if (const auto found = words().find(name); found != words().end())
      add("", found->second.value, found->second.gradient);
    if (any) return;
    for (const OpId op : seen.ops) {
      const graph::FormulaText* formula = row_of(op).formula;
      if (formula == nullptr) continue;
      std::vector<std::string> gradients;
      for (const char* gradient : formula->gradients) {
        if (gradient != nullptr) gradients.emplace_back(gradient);
      }
      add(row_name(op) == name ? "" : " (" + code(row_name(op)) + ")", code(formula->value),
          gradients_text(formula->parameters, gradients));
    }
    if (!any) problems_.push_back(name + " has neither a formula nor a text in op_texts.def");
  }

  void add_rows() {
    text_ << "\n## The rows of the op table\n"
             "What is recorded (`graph/record/op_table.cpp`). A scalar row is one operation of the "
             "kernel "
             "language, a formula is composed of them by its text, a composed row is written in "
             "primitives when a plan is built.\n\n"
             "| row | kind | kept for the gradient | recorded by |\n"
             "| --- | --- | --- | --- |\n";
    std::set<std::string> names;
    for (const graph::Op& op : graph::op_table) {
      const std::string name = row_name(op.id);
      if (!names.insert(name).second)
        problems_.push_back(name + " is two rows: give one a VOLTA_ROW in op_texts.def");
      const auto known = named_rows().find(op.id);
      const auto& users = recorded_by_[op.id];
      if (known == named_rows().end() && users.empty())
        problems_.push_back("no call records the row " + name + ", and op_texts.def has no text");
      text_ << "| " << code(name) << " | " << kind_of(op) << " | " << saves_of(op) << " | ";
      if (known != named_rows().end()) text_ << known->second.text << (users.empty() ? "" : ": ");
      constexpr std::size_t kNamed = 8;
      std::vector<std::string> shown(
          users.begin(),
          users.begin() + static_cast<std::ptrdiff_t>(std::min(users.size(), kNamed)));
      for (std::string& user : shown) user = code(user);
      text_ << joined(shown, ", ");
      if (users.size() > kNamed) text_ << " and " << users.size() - kNamed << " more";
      text_ << " |\n";
    }
  }

  static std::string kind_of(const graph::Op& op) {
    return graph::is_scalar_op(op.id)              ? "scalar"
           : op.formula != nullptr                 ? "formula"
           : graph::expansion_of(op.id) != nullptr ? "composed"
                                                   : "primitive";
  }

  static std::string saves_of(const graph::Op& op) {
    if (op.vjp == nullptr) return "no gradient";
    constexpr std::uint32_t kAllInputs = (1u << 30) - 1;
    std::vector<std::string> parts;
    const std::uint32_t inputs = op.saves.any() & kAllInputs;
    if (inputs >= 1u << 29) {
      int first = 0;
      while ((inputs >> first & 1u) == 0) ++first;
      parts.push_back("inputs from " + std::to_string(first) + " on");
    } else {
      for (int i = 0; i < 29; ++i) {
        if ((inputs >> i & 1u) != 0) parts.push_back("input " + std::to_string(i));
      }
    }
    if ((op.saves.any() & graph::kSavesOutput) != 0) parts.emplace_back("result");
    if ((op.saves.any() & graph::kSavesAuxiliary) != 0) parts.emplace_back("other results");
    return parts.empty() ? "nothing" : joined(parts, ", ");
  }

  std::ostringstream text_;
  std::map<OpId, std::vector<std::string>> recorded_by_;
  std::vector<std::string> problems_;
};

TEST(OpsPage, IsWhatTheTableAndTheCallsSay) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "the page is made on the CPU";
  const testing::NoProgramsCollected ordinary;
  Page page;
  const std::string text = page.text();
  EXPECT_EQ(page.problems(), std::vector<std::string>());
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 2000);
  if (std::getenv("VOLTA_UPDATE_DOCS") != nullptr) {
    std::ofstream(declarations::source_path("docs/ops.md")) << text;
    return;
  }
  // Compares line by line, because a message with the whole page would help nobody.
  std::istringstream made(text), committed(declarations::read_source("docs/ops.md"));
  std::string expected, actual;
  for (int line = 1; std::getline(made, expected); ++line) {
    actual.clear();
    std::getline(committed, actual);
    ASSERT_EQ(actual, expected) << "docs/ops.md:" << line << "; VOLTA_UPDATE_DOCS=1 writes it anew";
  }
  EXPECT_FALSE(std::getline(committed, actual)) << "docs/ops.md goes on: " << actual;
}

// Verifies the page's statements about backends: every device plans the same steps as the CPU.
// Convolutions are kernels and products without a library for them, and a bias is a kernel if the
// library does not add it.
TEST(OpsPage, StepsAreTheSameOnEveryDevice) {
  const testing::NoProgramsCollected ordinary;
  for (const calls::Call& call : calls::all()) {
    const auto steps_on = [&](Device device) {
      return steps_of(call.function(lone_inputs(call, device)));
    };
    const std::set<std::string> here = steps_on(test_device()), there = steps_on(Device::cpu());
    if (here == there) continue;
    const bool by_library = there.count("convolution") + there.count("matmul") > 0;
    EXPECT_TRUE(by_library) << call.op;
    for (const std::string& kind : here)
      EXPECT_TRUE(kind == "kernel" || kind == "matmul") << call.op;
  }
}

TEST(OpsPage, ProductsAreCallsOfTheLibrary) {
  const calls::Call& product = *calls::of("matmul").at(0);
  const calls::Tensors inputs = calls::usual_inputs(product, test_device());
  const Counters before = counters();
  product.function(inputs).at(0).eval();
  synchronize(test_device());
  const Counters now = counters();
  if (test_device().type() == DeviceType::opencl) {
    EXPECT_EQ(now.library_calls, before.library_calls);
    EXPECT_GT(now.launches, before.launches);
  } else {
    EXPECT_EQ(now.library_calls - before.library_calls, 1u);
    EXPECT_EQ(now.launches, before.launches);
  }
}

// The descriptive formulas of elementwise.def are true: as functions of their own they give the
// operation's value and gradients, also at ties, zeros and NaN.
TEST(OpsPage, TextsAgreeWithTheOperations) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "texts do not depend on devices";
  const testing::NoProgramsCollected ordinary;
  const std::vector<double> points{-2, -1, -0.5, 0, 0.25, 1, 2.5, std::nan("")};
  std::vector<double> left, right;
  for (const double a : points) {
    for (const double b : points) {
      left.push_back(a);
      right.push_back(b);
    }
  }
  const Tensor weights = arange(left.size(), {.dtype = DType::f64}) * 0.125 + 1;
  for (const ScalarText& text : scalar_texts()) {
    SCOPED_TRACE(text.name);
    const ScalarFunction function({.name = "text_of_" + text.name,
                                   .parameters = text.parameters,
                                   .formula = text.value,
                                   .gradients = text.gradients});
    const bool two = names_of(text.parameters).size() == 2;
    const auto results = [&](bool of_text) {
      calls::Tensors inputs{from_vector(left)};
      if (two) inputs.push_back(from_vector(right));
      for (Tensor& input : inputs) input.set_requires_grad();
      const Tensor y = !of_text ? calls::of(text.name).at(0)->function(inputs).at(0)
                       : two    ? function(inputs[0], inputs[1])
                                : function(inputs[0]);
      std::vector<std::vector<double>> all{y.to(DType::f64).to_vector<double>()};
      if (text.gradients.empty()) {
        EXPECT_EQ(y.dtype(), DType::boolean);
        return all;
      }
      y.backward(weights);
      for (const Tensor& input : inputs) all.push_back(input.grad().to_vector<double>());
      return all;
    };
    const auto expected = results(false), actual = results(true);
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t part = 0; part < expected.size(); ++part) {
      for (std::size_t i = 0; i < left.size(); ++i) {
        const double a = actual[part][i], e = expected[part][i];
        const bool agree =
            std::isnan(e) ? std::isnan(a) : a == e || std::fabs(a - e) <= 1e-13 * std::fabs(e);
        EXPECT_TRUE(agree) << (part == 0 ? "value" : "gradient") << " at (" << left[i] << ", "
                           << right[i] << "): the text gives " << a << ", the operation " << e;
      }
    }
  }
}

}  // namespace
}  // namespace volta
