// Tables of numbers in text files: comma-separated values, with quotes and a header; lines end in
// LF, CRLF or CR. Numbers too small for f32 become 0, and numbers too large are errors. Errors are
// IoErrors with the file and the line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "volta/data/dataset.h"
#include "volta/dtype.h"
#include "volta/export.h"

namespace volta::data {

struct CsvOptions {
  bool header = true;  // the first line has the names of the columns
  char delimiter = ',';
  // Columns by name, or by number ("0") without a header. If empty, all columns except the labels.
  std::vector<std::string> features = {};
  // If there is one label, y has a number per row; if there are several, y has a row of numbers.
  std::vector<std::string> labels = {};
  DType label_dtype = DType::f32;  // f32, or i64 for classes
  // The single label is text. Its distinct values, sorted, are the classes, and y is the class
  // number.
  bool label_names = false;
};

// A dataset with the features as rows of f32.
class VOLTA_API CsvDataset : public TensorDataset {
 public:
  const std::vector<std::string>& feature_names() const { return feature_names_; }
  // Names of the classes if labels are text.
  const std::vector<std::string>& classes() const { return classes_; }

 private:
  friend VOLTA_API CsvDataset parse_csv(std::string_view, const std::string&, const CsvOptions&);
  CsvDataset(const Tensor& x, const Tensor& y, std::vector<std::string> feature_names,
             std::vector<std::string> classes);
  std::vector<std::string> feature_names_, classes_;
};

VOLTA_API CsvDataset read_csv(const std::string& path, const CsvOptions& options = {});
// Parses the content of a file; `name` appears in messages.
VOLTA_API CsvDataset parse_csv(std::string_view text, const std::string& name,
                               const CsvOptions& options = {});

}  // namespace volta::data
