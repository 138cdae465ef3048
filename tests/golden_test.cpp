// Reading golden files, and comparing with them.
#include "golden.h"

#include <cmath>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "conformance.h"
#include "io/json.h"
#include "kernel_reference.h"
#include "volta/safetensors.h"

namespace volta::golden {
namespace {

using conformance::Tolerance;

const SafetensorsFile& file_of(const std::string& family) {
  static std::map<std::string, SafetensorsFile> files;
  const auto found = files.find(family);
  if (found != files.end()) return found->second;
  const std::string path = std::string(VOLTA_GOLDEN_DIR) + "/" + family + ".safetensors";
  return files.emplace(family, SafetensorsFile(path)).first->second;
}

Tolerance tolerance_of(DType dtype, Precision precision) {
  const bool close = precision == Precision::close;
  switch (dtype) {
    case DType::f16:
      return {2e-3, close ? 1e-3 : 1e-7};
    case DType::bf16:
      return {1e-2, close ? 1e-3 : 0};
    case DType::f32:
      return close ? Tolerance{1e-5, 2e-7} : Tolerance{1e-6, 0};
    case DType::f64:
      return {1e-12, close ? 1e-14 : 0};
    default:
      return {};
  }
}

struct Case {
  std::string name;
  Attributes attributes;
  std::vector<std::string> views;
  std::vector<const TensorEntry*> inputs;
};

std::vector<std::byte> bytes_of(const SafetensorsFile& file, const TensorEntry& entry) {
  const auto data = file.data(entry);
  return {data.begin(), data.end()};
}

Tensor upload(const SafetensorsFile& file, const TensorEntry& entry, bool requires_grad = false) {
  return detail::from_values(bytes_of(file, entry).data(),
                             static_cast<std::size_t>(entry.shape.numel()), entry.dtype,
                             entry.shape,
                             {.dtype = entry.dtype,
                              .device = test_device(),
                              .requires_grad = requires_grad && is_floating(entry.dtype)},
                             Place::here());
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
  if (view == "t") return base.t();
  if (view == "slice") return base.narrow(1, 1, base.size(1) - 2);
  return base;
}

// Where a kernel takes long to compile, views, broadcasting and other dtypes are left to an
// operation of each kind; the formulas run all.
bool is_wanted(const Operation& operation, const Case& c) {
  static const std::set<std::string> samples{"gelu_tanh", "mod", "addcdiv", "to_float32"};
  for (const TensorEntry* input : c.inputs) {
    if (!conformance::has(input->dtype)) return false;
  }
  if (conformance::thorough() || samples.count(operation.name) != 0) return true;
  for (const TensorEntry* input : c.inputs) {
    if (input->dtype != DType::f32 || input->shape.rank() != 1 ||
        input->shape != c.inputs[0]->shape) {
      return false;
    }
  }
  return c.views.empty();
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

void compare(const std::string& what, const Tensor& tensor, const SafetensorsFile& file,
             const TensorEntry& entry, Tolerance tolerance, bool signed_zeros, Problems& problems) {
  if (tensor.dtype() != entry.dtype || tensor.shape() != entry.shape) {
    problems.push_back(fmt::format("{} is {} {}, PyTorch's {} {}", what, name_of(tensor.dtype()),
                                   to_string(tensor.shape()), name_of(entry.dtype),
                                   to_string(entry.shape)));
    return;
  }
  const std::vector<std::byte> bytes = bytes_of(file, entry);
  const std::vector<double> actual = tensor.to_vector<double>();
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const testing::Value value =
        testing::read_element(bytes.data(), static_cast<std::int64_t>(i), entry.dtype);
    const double expected = is_floating(entry.dtype) ? value.f : static_cast<double>(value.i);
    if (agree(actual[i], expected, tolerance, signed_zeros)) continue;
    problems.push_back(
        fmt::format("{}[{}] is {:.9g}, PyTorch's {:.9g}", what, i, actual[i], expected));
  }
}

Problems check_case(const SafetensorsFile& file, const Operation& operation, const Case& c) {
  Problems problems;
  const TensorEntry* g = file.find(c.name + "/g");
  std::vector<Tensor> leaves, inputs;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    leaves.push_back(upload(file, *c.inputs[i], g != nullptr));
    inputs.push_back(viewed(leaves.back(), i < c.views.size() ? c.views[i] : ""));
  }
  const Tensor result = operation.function(inputs, c.attributes);
  if (g != nullptr) result.backward(upload(file, *g));
  const TensorEntry& out = *file.find(c.name + "/out");
  const Tolerance tolerance = tolerance_of(out.dtype, operation.precision);
  compare(c.name, result, file, out, tolerance, operation.precision == Precision::exact, problems);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::string what = c.name + "/grad" + std::to_string(i);
    const TensorEntry* gradient = file.find(what);
    if (gradient == nullptr) continue;
    if (!leaves[i].grad().defined()) {
      problems.push_back(what + " is not there");
      continue;
    }
    compare(what, leaves[i].grad(), file, *gradient,
            tolerance_of(gradient->dtype, Precision::close), false, problems);
  }
  return problems;
}

}  // namespace

void check(const std::string& family, const Operation& operation) {
  const SafetensorsFile& file = file_of(family);
  const DeviceWork work;
  bool wanted = false;
  for (const Case& c : cases_of(file, operation.name)) {
    if (!is_wanted(operation, c)) continue;
    wanted = true;
    for (const std::string& problem : check_case(file, operation, c)) ADD_FAILURE() << problem;
  }
  work.expect_here();
  if (wanted) {
    EXPECT_GT(work.runs(), 0u) << "nothing ran on " << to_string(test_device());
  }
}

std::vector<Family>& families() {
  static std::vector<Family> all;
  return all;
}

int case_count(const Family& family, const Operation& operation) {
  return static_cast<int>(cases_of(file_of(family.name), operation.name).size());
}

bool is_wanted(const Family& family, const Operation& operation, int number) {
  const std::vector<Case> cases = cases_of(file_of(family.name), operation.name);
  return is_wanted(operation, cases.at(static_cast<std::size_t>(number)));
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
