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
  DType dtype = DType::f32;  // of the input; i64 for token ids
};

struct VOLTA_API Summary {
  struct Row {
    std::string name;  // its path, "" for the module itself
    std::string kind;  // its class
    int depth = 0;
    std::vector<Shape> outputs;   // of its last call; none if it was not called
    std::int64_t parameters = 0;  // elements, its children's included
    std::int64_t operations = 0;  // multiplications and additions count one each; all its calls
  };
  std::vector<Row> rows;  // parents first
  std::int64_t parameters = 0;
  std::int64_t trainable = 0;  // of them
  std::int64_t bytes = 0;      // of parameters and buffers
  std::int64_t operations = 0;
  // Classes of modules with parameters that were called but never added: forgotten ones.
  std::vector<std::string> strays;
};
VOLTA_API std::ostream& operator<<(std::ostream& out, const Summary& summary);
VOLTA_API std::string to_string(const Summary& summary);

}  // namespace volta::nn
