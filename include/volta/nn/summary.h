// Summary: a module's layers as a table.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "volta/dtype.h"
#include "volta/shape.h"

namespace volta::nn {

struct SummaryOptions {
  DType dtype = DType::f32;  // dtype of the input; i64 for token ids
};

struct VOLTA_API Summary {
  struct Row {
    std::string name;  // path of the module, "" for the module itself
    std::string kind;  // class of the module
    int depth = 0;
    std::vector<Shape> outputs;   // shapes of its last call; empty if it was not called
    std::int64_t parameters = 0;  // number of elements, including those of its children
    std::int64_t operations = 0;  // over all calls; each multiplication and addition counts as one
  };
  std::vector<Row> rows;  // parents first
  std::int64_t parameters = 0;
  std::int64_t trainable = 0;  // elements of trainable parameters
  std::int64_t bytes = 0;      // size of parameters and buffers
  std::int64_t operations = 0;
  // Classes of modules with parameters that were called but never added.
  std::vector<std::string> strays;
};
VOLTA_API std::ostream& operator<<(std::ostream& out, const Summary& summary);
VOLTA_API std::string to_string(const Summary& summary);

}  // namespace volta::nn
