// Reads golden files and compares results with them.
#include "ops/golden/golden.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "encoding/json.h"
#include "kernel/kernel_reference.h"
#include "ops/conformance/conformance.h"
#include "support/paths.h"
#include "volta/safetensors.h"

namespace volta::golden {
namespace {

using conformance::Tolerance;

const SafetensorsFile& file_of(const std::string& family) {
  static std::map<std::string, SafetensorsFile> files;
  const auto found = files.find(family);
  if (found != files.end()) return found->second;
  const std::string path = paths::golden_dir() + "/" + family + ".safetensors";
  return files.emplace(family, SafetensorsFile(path)).first->second;
}

Tolerance tolerance_of(DType dtype, Precision precision) {
  const bool close = precision == Precision::close || precision == Precision::sums;
  switch (dtype) {
    case DType::f16:
      return {2e-3, close ? 1e-3 : 1e-7};
    case DType::bf16:
      return {1e-2, close ? 1e-3 : 0};
    case DType::f32:
      // Half a unit in the last place of sums of about 8, which may cancel completely.
      return close ? Tolerance{1e-5, 4.8e-7} : Tolerance{1e-6, 0};
    case DType::f64:
      return {1e-12, close ? 1e-14 : 0};
    default:
      return {};
  }
}

struct Case {
  std::string name;
  int number = 0;
  Attributes attributes;
  std::vector<std::string> views;
  std::vector<const TensorEntry*> inputs;
};

std::vector<std::byte> bytes_of(const SafetensorsFile& file, const TensorEntry& entry) {
  const auto data = file.data(entry);
  return {data.begin(), data.end()};
}

Tensor upload(const SafetensorsFile& file, const TensorEntry& entry, bool requires_grad = false) {
  return detail::from_values("golden", bytes_of(file, entry).data(),
                             static_cast<std::size_t>(entry.shape.numel()), entry.dtype,
                             entry.shape,
                             {.dtype = entry.dtype,
                              .device = test_device(),
                              .requires_grad = requires_grad && is_floating(entry.dtype)},
                             SourceLocation::here());
}

void read_notes(const SafetensorsFile& file, Case& read) {
  const auto notes = file.metadata().find(read.name);
  if (notes == file.metadata().end()) return;
  const io::JsonValue json = io::parse_json(notes->second, read.name);
  for (const io::JsonMember& note : *json.as_object()) {
    for (const io::JsonMember& member : *note.value.as_object()) {
      if (note.key == "views") {
        const std::size_t input = std::stoul(member.key);
        if (input >= read.views.size()) read.views.resize(input + 1);
        read.views[input] = *member.value.as_string();
      } else if (const auto whole = member.value.as_integer()) {
        read.attributes.set(member.key, *whole);
      } else {
        read.attributes.set(member.key,
                            std::stod(std::get<io::JsonValue::Number>(member.value.value).text));
      }
    }
  }
}

std::vector<Case> cases_of(const SafetensorsFile& file, const std::string& operation) {
  std::vector<Case> cases;
  for (int number = 0;; ++number) {
    Case read;
    read.name = operation + "/" + std::to_string(number);
    read.number = number;
    for (int i = 0;; ++i) {
      const TensorEntry* input = file.find(read.name + "/in" + std::to_string(i));
      if (input == nullptr) break;
      read.inputs.push_back(input);
    }
    if (read.inputs.empty()) return cases;
    read_notes(file, read);
    cases.push_back(std::move(read));
  }
}

Tensor viewed(const Tensor& base, const std::string& view) {
  if (view == "t") return base.transpose(-1, -2);
  if (view == "channels_last") {
    std::vector<std::int64_t> order{0, base.rank() - 1};
    for (int axis = 1; axis + 1 < base.rank(); ++axis) order.push_back(axis);
    return base.permute(order);
  }
  if (view == "slice") return base.narrow(1, 1, base.size(1) - 2);
  return base;
}

// What the kernels of a case depend on besides the operation: the inputs' dtypes, layouts and equal
// extents, and the attributes except floating-point numbers, which are arguments.
std::string structure_of(const Case& c) {
  std::string text;
  std::vector<std::int64_t> extents;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    text += fmt::format("{}{}[", name_of(c.inputs[i]->dtype), i < c.views.size() ? c.views[i] : "");
    const Shape& shape = c.inputs[i]->shape;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const auto known = std::find(extents.begin(), extents.end(), shape[axis]);
      text += shape[axis] <= 1 ? fmt::format(" {}", shape[axis])
                               : fmt::format(" e{}", known - extents.begin());
      if (known == extents.end()) extents.push_back(shape[axis]);
    }
    text += "]";
  }
  return text + c.attributes.structure();
}

bool is_supported(const Case& c) {
  return std::all_of(c.inputs.begin(), c.inputs.end(),
                     [](const TensorEntry* input) { return conformance::has(input->dtype); });
}

bool is_empty(const Case& c) {
  return std::any_of(c.inputs.begin(), c.inputs.end(),
                     [](const TensorEntry* input) { return input->shape.numel() == 0; });
}

// Losses with the same kind of kernels as binary_cross_entropy_with_logits, nll_loss and
// cross_entropy. If compiling a kernel takes long, only these three run.
bool is_run_by_others(const Operation& operation) {
  static const char* const names[] = {"cross_entropy_probabilities", "cross_entropy_gradient"};
  return !thorough() && std::count(std::begin(names), std::end(names), operation.name);
}

// The cases to run on the test device. If compiling a kernel takes long: for each operation the
// first case with elements, and with a gradient if any has one, and the cases of the same
// structure, which need no other kernel. One operation runs all cases, for views, broadcasting and
// dtypes.
std::vector<Case> wanted_cases(const SafetensorsFile& file, const Operation& operation) {
  static const std::set<std::string> samples{"mod"};
  // These names stand for different rows of the op table, depending on attributes.
  static const std::set<std::string> several{"clamp", "max", "min"};
  std::vector<Case> cases = cases_of(file, operation.name);
  std::erase_if(cases, [](const Case& c) { return !is_supported(c); });
  if (thorough() || samples.count(operation.name) != 0) return cases;
  if (is_run_by_others(operation)) return {};
  const auto has_gradient = [&](const Case& c) { return file.find(c.name + "/g") != nullptr; };
  std::map<std::string, const Case*> firsts;
  for (const Case& c : cases) {
    if (is_empty(c)) continue;
    const Case*& first = firsts[several.count(operation.name) != 0 ? c.attributes.names() : ""];
    if (first == nullptr || (has_gradient(c) && !has_gradient(*first))) first = &c;
  }
  std::set<std::string> structures;
  for (const auto& [attributes, first] : firsts) structures.insert(structure_of(*first));
  std::erase_if(cases, [&](const Case& c) { return structures.count(structure_of(c)) == 0; });
  return cases;
}

bool agree(double actual, double expected, Tolerance tolerance, bool signed_zeros) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (actual == expected)
    return expected != 0 || !signed_zeros || std::signbit(actual) == std::signbit(expected);
  return std::isfinite(actual) && std::isfinite(expected) &&
         std::fabs(actual - expected) <=
             tolerance.relative * std::fabs(expected) + tolerance.absolute;
}

using Problems = std::vector<std::string>;

// A recorded tensor and PyTorch's value for it.
struct Expectation {
  std::string what;
  Tensor tensor;
  const TensorEntry* entry;
  Tolerance tolerance;
  bool signed_zeros;
  bool of_largest = false;  // the tolerance is relative to the largest element
  double terms = 0;         // the magnitude of the summed terms, if it is known
};

void expect(Expectation expectation, std::vector<Expectation>& all, Problems& problems) {
  const Tensor& tensor = expectation.tensor;
  const TensorEntry& entry = *expectation.entry;
  if (tensor.dtype() == entry.dtype && tensor.shape() == entry.shape) {
    all.push_back(std::move(expectation));
    return;
  }
  problems.push_back(fmt::format("{} is {} {}, PyTorch's {} {}", expectation.what,
                                 name_of(tensor.dtype()), to_string(tensor.shape()),
                                 name_of(entry.dtype), to_string(entry.shape)));
}

double element_at(std::span<const std::byte> bytes, std::size_t i, DType dtype) {
  const testing::Value value =
      testing::read_element(bytes.data(), static_cast<std::int64_t>(i), dtype);
  return is_floating(dtype) ? value.f : static_cast<double>(value.i);
}

Values values_of(const SafetensorsFile& file, const TensorEntry& entry) {
  Values values{entry.shape, {}};
  const std::vector<std::byte> bytes = bytes_of(file, entry);
  const auto count = static_cast<std::size_t>(entry.shape.numel());
  for (std::size_t i = 0; i < count; ++i)
    values.elements.push_back(element_at(bytes, i, entry.dtype));
  return values;
}

double terms_of(const SafetensorsFile& file, const Operation& operation, const Case& c,
                const TensorEntry& g, std::size_t input) {
  if (!operation.terms) return 0;
  std::vector<Values> inputs;
  for (const TensorEntry* entry : c.inputs) inputs.push_back(values_of(file, *entry));
  return operation.terms(inputs, values_of(file, g), input);
}

// Half the distance from 1 to the next number.
double rounding_of(DType dtype) { return dtype == DType::f64 ? 0x1p-53 : 0x1p-24; }

// Calls the operation and differentiates it, without evaluating anything.
std::vector<Expectation> record_case(const SafetensorsFile& file, const Operation& operation,
                                     const Case& c, Problems& problems) {
  const TensorEntry* g = file.find(c.name + "/g");
  std::vector<Tensor> leaves, inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    leaves.push_back(upload(file, *c.inputs[i], g != nullptr));
    inputs.push_back(viewed(leaves.back(), i < c.views.size() ? c.views[i] : ""));
  }
  const Tensor result = operation.function(inputs, c.attributes);
  if (g != nullptr) result.backward(upload(file, *g));
  std::vector<Expectation> all;
  const TensorEntry* out = file.find(c.name + "/out");
  expect({c.name, result.detach(), out, tolerance_of(out->dtype, operation.precision),
          operation.precision == Precision::exact, operation.precision == Precision::sums},
         all, problems);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::string what = c.name + "/grad" + std::to_string(i);
    const TensorEntry* gradient = file.find(what);
    if (gradient == nullptr) continue;
    if (!leaves[i].grad().defined()) {
      problems.push_back(what + " is not there");
      continue;
    }
    const bool sums = operation.precision == Precision::sums;
    expect({what, leaves[i].grad(), gradient, tolerance_of(gradient->dtype, Precision::close),
            false, sums, terms_of(file, operation, c, *g, i)},
           all, problems);
  }
  return all;
}

void compare(const SafetensorsFile& file, const Expectation& expectation,
             std::span<const double> actual, Problems& problems) {
  const TensorEntry& entry = *expectation.entry;
  const std::vector<std::byte> bytes = bytes_of(file, entry);
  const auto expected_at = [&](std::size_t i) { return element_at(bytes, i, entry.dtype); };
  Tolerance tolerance = expectation.tolerance;
  tolerance.absolute += rounding_of(entry.dtype) * expectation.terms;
  if (expectation.of_largest) {
    double largest = 0;
    for (std::size_t i = 0; i < actual.size(); ++i) {
      if (std::isfinite(expected_at(i))) largest = std::max(largest, std::fabs(expected_at(i)));
    }
    tolerance.absolute += tolerance.relative * largest;
  }
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double expected = expected_at(i);
    if (agree(actual[i], expected, tolerance, expectation.signed_zeros)) continue;
    problems.push_back(fmt::format("{}[{}] is {:.9g}, PyTorch's {:.9g}", expectation.what, i,
                                   actual[i], expected));
  }
}

Problems check_case(const SafetensorsFile& file, const Operation& operation, const Case& c) {
  Problems problems;
  for (const Expectation& e : record_case(file, operation, c, problems))
    compare(file, e, e.tensor.to_vector<double>(), problems);
  return problems;
}

// ---- Several operations in one kernel.

struct Call {
  const Operation* operation;
  Case c;
};
using ProblemsOf = std::map<std::string, Problems>;

// Concatenates the results and gradients of the calls, so that one kernel computes them all.
void check_together(const SafetensorsFile& file, std::span<const Call> calls,
                    ProblemsOf& problems) {
  struct Part {
    Expectation expectation;
    Problems* problems;
  };
  std::map<DType, std::vector<Part>> parts;
  for (const Call& call : calls) {
    Problems& own = problems[call.operation->name];
    for (Expectation& e : record_case(file, *call.operation, call.c, own)) {
      // Dtypes whose values f32 holds exactly can be concatenated with it.
      const DType dtype = e.entry->dtype;
      const bool wide = dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64;
      parts[wide ? dtype : DType::f32].push_back({std::move(e), &own});
    }
  }
  std::map<DType, Tensor> joined;
  for (auto& [dtype, those] : parts) {
    std::vector<Tensor> flat;
    for (Part& part : those) {
      flat.push_back(part.expectation.tensor.to(dtype).flatten());
      part.expectation.tensor = {};  // otherwise it would be stored as well
    }
    joined.emplace(dtype, concat(flat, 0));
  }
  for (const auto& [dtype, those] : parts) {
    const std::vector<double> values = joined.at(dtype).to_vector<double>();
    std::span<const double> left(values);
    for (const Part& part : those) {
      const auto count = static_cast<std::size_t>(part.expectation.entry->shape.numel());
      compare(file, part.expectation, left.first(count), *part.problems);
      left = left.subspan(count);
    }
  }
}

// The wanted cases of a family: the first case of several operations together, then the second
// cases, which use the same kernels if the operations have equally many cases, and so on.
ProblemsOf check_family(const Family& family) {
  constexpr std::size_t kMostLeaves = 16;  // bounds the length of a kernel
  const SafetensorsFile& file = file_of(family.name);
  std::map<std::size_t, std::vector<std::vector<Call>>> rounds;  // by the number of cases
  for (const Operation& operation : family.operations()) {
    std::vector<Case> cases = wanted_cases(file, operation);
    auto& those = rounds[cases.size()];
    those.resize(cases.size());
    for (std::size_t i = 0; i < cases.size(); ++i)
      those[i].push_back({&operation, std::move(cases[i])});
  }
  ProblemsOf problems;
  for (const auto& [count, those] : rounds) {
    for (const std::vector<Call>& round : those) {
      std::size_t begin = 0, leaves = 0;
      for (std::size_t i = 0; i < round.size(); ++i) {
        const std::size_t more = round[i].c.inputs.size() + 1;
        if (leaves > 0 && leaves + more > kMostLeaves) {
          check_together(file, std::span(round).subspan(begin, i - begin), problems);
          begin = i;
          leaves = 0;
        }
        leaves += more;
      }
      check_together(file, std::span(round).subspan(begin), problems);
    }
  }
  return problems;
}

}  // namespace

void check(const std::string& family, const Operation& operation) {
  const DeviceWork work;
  const SafetensorsFile& file = file_of(family);
  if (is_run_by_others(operation)) GTEST_SKIP() << "others of its kind run here";
  const auto registered = std::find_if(families().begin(), families().end(),
                                       [&](const Family& f) { return f.name == family; });
  if (!thorough() && registered != families().end() && !registered->looks_at_values) {
    static std::map<std::string, ProblemsOf> checked;
    if (checked.count(family) == 0) {
      checked.emplace(family, check_family(*registered));
      EXPECT_GT(work.runs(), 0u) << "nothing ran on " << to_string(test_device());
    }
    const ProblemsOf& problems = checked.at(family);
    ASSERT_NE(problems.find(operation.name), problems.end()) << "none of its cases ran";
    for (const std::string& problem : problems.at(operation.name)) ADD_FAILURE() << problem;
  } else {
    const std::vector<Case> cases = wanted_cases(file, operation);
    for (const Case& c : cases) {
      for (const std::string& problem : check_case(file, operation, c)) ADD_FAILURE() << problem;
    }
    if (!cases.empty()) {
      EXPECT_GT(work.runs(), 0u) << "nothing ran on " << to_string(test_device());
    }
  }
  work.expect_here();
}

std::vector<Family>& families() {
  static std::vector<Family> all;
  return all;
}

std::vector<int> wanted_cases(const Family& family, const Operation& operation) {
  std::vector<int> numbers;
  for (const Case& c : wanted_cases(file_of(family.name), operation)) numbers.push_back(c.number);
  return numbers;
}

void record(const Family& family, const Operation& operation, int number) {
  const SafetensorsFile& file = file_of(family.name);
  Problems ignored;
  record_case(file, operation, cases_of(file, operation.name).at(static_cast<std::size_t>(number)),
              ignored);
}

Problems problems_of(const Family& family, const Operation& operation, int number) {
  const SafetensorsFile& file = file_of(family.name);
  return check_case(file, operation,
                    cases_of(file, operation.name).at(static_cast<std::size_t>(number)));
}

void expect_complete(const std::string& family, std::span<const Operation> operations) {
  const SafetensorsFile& file = file_of(family);
  std::set<std::string> in_file, in_table;
  for (const TensorEntry& entry : file.tensors())
    in_file.insert(entry.name.substr(0, entry.name.find('/')));
  for (const Operation& operation : operations) {
    EXPECT_TRUE(in_table.insert(operation.name).second) << operation.name << " is there twice";
    EXPECT_GE(cases_of(file, operation.name).size(), 6u) << operation.name;
  }
  EXPECT_EQ(in_file, in_table);
}

namespace {

TEST(Golden, WhatDiffersIsSeen) {
  const Tolerance tight{1e-6, 0};
  const double nan = conformance::kNan, inf = conformance::kInf;
  EXPECT_TRUE(agree(1 + 5e-7, 1, tight, true));
  EXPECT_FALSE(agree(1 + 2e-6, 1, tight, true));
  EXPECT_TRUE(agree(nan, nan, tight, true));
  EXPECT_FALSE(agree(nan, 1, tight, true));
  EXPECT_FALSE(agree(1, nan, tight, true));
  EXPECT_FALSE(agree(inf, 1e30, tight, true));
  EXPECT_FALSE(agree(inf, -inf, tight, true));
  EXPECT_FALSE(agree(0.0, -0.0, tight, true));
  EXPECT_TRUE(agree(0.0, -0.0, tight, false));
}

}  // namespace
}  // namespace volta::golden
