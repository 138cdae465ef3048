// Every operation, with each part on any device.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "ops/op_calls.h"
#include "runtime/placement/placement.h"
#include "runtime/placement/placements.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

std::uint32_t drawn = 1;
DeviceEntry* anywhere(graph::OpId) {
  drawn = drawn * 1664525u + 1013904223u;
  return &device_entry((drawn >> 16 & 1) != 0 ? test_device() : Device::cpu());
}

struct Results {
  std::vector<std::vector<double>> values, gradients;
};
std::vector<double> numbers(const Tensor& tensor) {
  return tensor.to(DType::f64).to_vector<double>();
}
Results results_of(const calls::Call& call) {
  manual_seed(11);
  calls::Tensors inputs = calls::usual_inputs(call, Device::cpu());
  for (Tensor& input : inputs) {
    if (is_floating(input.dtype())) {
      input = input.detach();
      input.set_requires_grad();
    }
  }
  const calls::Tensors outputs = call.function(inputs);
  Results results;
  Tensor total;
  for (const Tensor& output : outputs) {
    results.values.push_back(numbers(output.detach().to(Device::cpu())));
    if (!is_floating(output.dtype()) || !output.requires_grad()) continue;
    const Tensor part = (output * output).sum();
    total = total.defined() ? total + part : part;
  }
  if (!total.defined()) return results;
  total.backward();
  for (const Tensor& input : inputs) {
    if (input.requires_grad() && input.grad().defined())
      results.gradients.push_back(numbers(input.grad().to(Device::cpu())));
  }
  return results;
}

void expect_near(const std::vector<std::vector<double>>& a,
                 const std::vector<std::vector<double>>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].size(), b[i].size()) << what;
    for (std::size_t k = 0; k < a[i].size(); ++k) {
      if (std::isnan(a[i][k]) && std::isnan(b[i][k])) continue;
      if (a[i][k] == b[i][k]) continue;
      ASSERT_NEAR(a[i][k], b[i][k], 1e-4 * (1 + std::abs(a[i][k]))) << what << " " << i << " " << k;
    }
  }
}

TEST_F(Placements, EveryOperationInPiecesAnywhere) {
  const std::size_t stride = thorough() ? 1 : 24;
  const std::vector<calls::Call>& all = calls::all();
  for (std::size_t i = 0; i < all.size(); i += stride) {
    const calls::Call& call = all[i];
    SCOPED_TRACE(call.op);
    Results wanted;
    try {
      wanted = results_of(call);
    } catch (const Error&) {
      continue;  // there is no such gradient
    }
    const ExecutionContext context(options(Placement::automatic));
    graph::set_placement_chooser(anywhere);
    try {
      const Results results = results_of(call);
      expect_near(wanted.values, results.values, call.op);
      expect_near(wanted.gradients, results.gradients, call.op + " gradient");
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
    graph::set_placement_chooser(nullptr);
  }
}

}  // namespace
}  // namespace volta
