// Tables of numbers in text files: comma-separated values, with quotes and a header; lines end in
// LF, CRLF or CR. A number too small for f32 is 0, one too large an error. Errors are IoErrors that
// name the file and the line.
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
  bool header = true;  // the first line has names
  char delimiter = ',';
  // Columns by name, or by number ("0") where there is no header. No features: all but the labels.
  std::vector<std::string> features = {};
  std::vector<std::string> labels = {};  // one: y is a number for each row; several: a row of them
  DType label_dtype = DType::f32;        // f32, or i64 for classes
  // The one label is text: classes are its values in alphabetical order, and y their numbers.
  bool label_names = false;
};

// Features as f32 rows.
class VOLTA_API CsvDataset : public TensorDataset {
 public:
  const std::vector<std::string>& feature_names() const { return feature_names_; }
  const std::vector<std::string>& classes() const { return classes_; }  // where labels are text

 private:
  friend VOLTA_API CsvDataset parse_csv(std::string_view, const std::string&, const CsvOptions&);
  CsvDataset(const Tensor& x, const Tensor& y, std::vector<std::string> feature_names,
             std::vector<std::string> classes);
  std::vector<std::string> feature_names_, classes_;
};

VOLTA_API CsvDataset read_csv(const std::string& path, const CsvOptions& options = {});
// The same of a file's content; `name` is for messages.
VOLTA_API CsvDataset parse_csv(std::string_view text, const std::string& name,
                               const CsvOptions& options = {});

}  // namespace volta::data
