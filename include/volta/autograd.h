// Gradients: switching recording off, and checking gradients against finite differences.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "volta/tensor.h"

namespace volta {

// While alive, operations of this thread record no history.
class VOLTA_API NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool previous_;
};
VOLTA_API bool grad_enabled();

struct CheckOptions {
  double eps = 0;  // step of the differences; 0: 1e-2 for f32, 1e-6 for f64
  double tol = 0;  // largest error, relative to max(1, |gradient|); 0: 1e-3 for f32, 1e-7 for f64
};
struct CheckReport {
  bool passed = false;
  double worst = 0;     // the largest relative error
  std::string message;  // names the worst element: input, position, both values
};

// Compares the gradients of fn, reduced to a scalar with fixed random weights, with central
// differences.
VOLTA_API CheckReport check_gradients(const std::function<Tensor(const Tensor&)>& fn,
                                      const Tensor& input, CheckOptions options = {});
VOLTA_API CheckReport check_gradients(const std::function<Tensor(const std::vector<Tensor>&)>& fn,
                                      const std::vector<Tensor>& inputs, CheckOptions options = {});

}  // namespace volta
