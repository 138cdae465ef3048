// Random programs from a seed. Statements are tried on the reference as they are drawn, so that
// values stay moderate and every statement can be run.
#pragma once

#include <cstdint>
#include <vector>

#include "random_graph/random_graph_program.h"

namespace volta::random_graph {

struct GeneratorOptions {
  int most_statements = 32;
  std::vector<DType> floats{DType::f32, DType::f64, DType::f16, DType::bf16};  // supported dtypes
  bool large = true;  // sometimes creates tensors of many thousand elements
};

Program generated(std::uint64_t seed, const GeneratorOptions& options = {});

}  // namespace volta::random_graph
