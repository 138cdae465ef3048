// A CSV reader (RFC 4180). Quoted fields may contain delimiters, line ends and doubled quotes;
// lines end in LF, CRLF or CR; empty lines are ignored.
#include "volta/data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <system_error>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "data/host_tensor.h"
#include "platform/files.h"
#include "volta/error.h"

namespace volta::data {
namespace {

// The names of columns and classes are kept in memory, where each takes far more bytes than in the
// file, so their number is limited.
constexpr std::size_t kMaxColumns = 1 << 20, kMaxClasses = 1 << 20;

class Reader {
 public:
  Reader(std::string_view text, const std::string& name, char delimiter)
      : left_(text), name_(name), delimiter_(delimiter) {
    if (left_.starts_with("\xEF\xBB\xBF")) left_.remove_prefix(3);  // a byte order mark
  }

  // Reads the fields of the next line that is not empty; returns false at the end.
  bool next(std::vector<std::string>& fields) {
    while (!left_.empty() && at_line_end()) skip_line_end();
    if (left_.empty()) return false;
    row_line_ = line_;
    std::size_t count = 0;
    for (;;) {
      if (count == kMaxColumns) fail("more than a million columns");
      if (count == fields.size()) fields.emplace_back();
      read_field(fields[count++]);
      if (left_.empty() || left_.front() != delimiter_) break;
      left_.remove_prefix(1);
    }
    fields.resize(count);
    if (!left_.empty()) skip_line_end();
    return true;
  }

  std::size_t line() const { return row_line_; }  // line number of the current row, from 1
  [[noreturn]] void fail(const std::string& why) const {
    throw IoError(fmt::format("{}: line {}: {}", name_, row_line_, why));
  }

 private:
  static bool ends_line(char c) { return c == '\n' || c == '\r'; }
  bool at_line_end() const { return ends_line(left_.front()); }
  void skip_line_end() {
    left_.remove_prefix(left_.starts_with("\r\n") ? 2 : 1);
    ++line_;
  }
  static std::size_t lines_in(std::string_view text) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < text.size(); ++i)
      count += text[i] == '\n' || (text[i] == '\r' && !text.substr(i).starts_with("\r\n"));
    return count;
  }

  void read_field(std::string& field) {
    field.clear();
    if (left_.empty() || left_.front() != '"') {
      std::size_t end = 0;
      while (end < left_.size() && left_[end] != delimiter_ && !ends_line(left_[end])) {
        if (left_[end] == '"') fail("a quote within a field that is not quoted");
        ++end;
      }
      field.assign(left_.substr(0, end));
      left_.remove_prefix(end);
      return;
    }
    left_.remove_prefix(1);
    for (;;) {
      const std::size_t quote = left_.find('"');
      if (quote == std::string_view::npos) fail("a quoted field does not end");
      const std::string_view part = left_.substr(0, quote);
      line_ += lines_in(part);
      field.append(part);
      left_.remove_prefix(quote + 1);
      if (!left_.starts_with('"')) break;
      field.push_back('"');
      left_.remove_prefix(1);
    }
    if (!left_.empty() && left_.front() != delimiter_ && !at_line_end())
      fail("text after a quoted field");
  }

  std::string_view left_;
  const std::string& name_;
  char delimiter_;
  std::size_t line_ = 1, row_line_ = 1;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Decides whether a number outside the type's range is too small rather than too large, by the
// decimal exponent of its first nonzero digit.
bool is_tiny(std::string_view number) {
  const std::size_t e = std::min(number.find_first_of("eE"), number.size());
  const std::string_view digits = number.substr(0, e);
  const std::size_t first = digits.find_first_of("123456789"),
                    point = std::min(digits.find('.'), digits.size());
  if (first == std::string_view::npos) return true;
  if (e < number.size()) {
    std::string_view power = number.substr(e + 1);
    if (power.starts_with('+')) power.remove_prefix(1);
    std::int64_t exponent = 0;
    const auto [end, error] = std::from_chars(power.data(), power.data() + power.size(), exponent);
    if (error != std::errc()) return power.starts_with('-');  // the exponent does not fit 64 bits
    return exponent + static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first) < 0;
  }
  return first > point;
}

enum class Reading : std::uint8_t { good, none, too_large };

// Numbers too small for the type become 0, as in NumPy.
template <class Number>
Reading read_number(std::string_view text, Number& value) {
  text = trimmed(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument)
    return Reading::none;
  if (error == std::errc()) return Reading::good;
  if constexpr (std::is_floating_point_v<Number>) {
    if (is_tiny(text)) {
      value = std::copysign(Number{0}, text.starts_with('-') ? Number{-1} : Number{1});
      return Reading::good;
    }
  }
  return Reading::too_large;
}

// The values of one table, in row order.
class Table {
 public:
  Table(std::string_view text, const std::string& name, const CsvOptions& options)
      : name_(name), options_(options), reader_(text, name, options.delimiter) {
    std::vector<std::string> fields;
    if (!reader_.next(fields)) throw IoError(name + ": no lines");
    width_ = fields.size();
    for (std::size_t i = 0; i < width_; ++i)
      names_.push_back(options.header ? std::string(trimmed(fields[i])) : fmt::to_string(i));
    choose_columns();
    if (!options.header) take(fields);
    while (reader_.next(fields)) take(fields);
    number_classes();
  }

  const std::string& name_of(std::size_t column) const { return names_[column]; }

  std::vector<std::size_t> features, labels;  // column indices
  std::int64_t rows = 0;
  std::vector<float> x, y;
  std::vector<std::int64_t> y_classes;
  std::vector<std::string> classes;

 private:
  void choose_columns() {
    for (const std::string& wanted : options_.labels) labels.push_back(column(wanted));
    for (const std::string& wanted : options_.features) features.push_back(column(wanted));
    if (!options_.features.empty()) return;
    for (std::size_t i = 0; i < width_; ++i)
      if (std::find(labels.begin(), labels.end(), i) == labels.end()) features.push_back(i);
  }

  std::size_t column(const std::string& wanted) const {
    const auto found = std::find(names_.begin(), names_.end(), wanted);
    if (found == names_.end())
      throw IoError(fmt::format("{}: there is no column '{}'", name_, wanted));
    if (std::find(found + 1, names_.end(), wanted) != names_.end())
      throw IoError(fmt::format("{}: there are two columns '{}'", name_, wanted));
    return static_cast<std::size_t>(found - names_.begin());
  }

  void take(const std::vector<std::string>& fields) {
    if (fields.size() != width_)
      reader_.fail(fmt::format("{} fields, expected {}", fields.size(), width_));
    for (const std::size_t i : features) x.push_back(number<float>(fields, i));
    for (const std::size_t i : labels) {
      if (options_.label_names) {
        const std::string_view text = trimmed(fields[i]);
        if (text.empty()) missing(i);
        y_classes.push_back(class_number(std::string(text)));
      } else if (options_.label_dtype == DType::i64) {
        y_classes.push_back(number<std::int64_t>(fields, i));
      } else {
        y.push_back(number<float>(fields, i));
      }
    }
    ++rows;
  }

  [[noreturn]] void missing(std::size_t i) const {
    reader_.fail(fmt::format("the value of '{}' is missing", names_[i]));
  }

  template <class Number>
  Number number(const std::vector<std::string>& fields, std::size_t i) const {
    if (trimmed(fields[i]).empty()) missing(i);
    Number value{};
    const Reading reading = read_number(fields[i], value);
    if (reading != Reading::good) {
      reader_.fail(fmt::format("'{}' of '{}' is {} {}", fields[i].substr(0, 40), names_[i],
                               reading == Reading::none ? "no" : "too large for an",
                               std::is_integral_v<Number> ? "i64 integer" : "f32 number"));
    }
    if constexpr (std::is_floating_point_v<Number>) {
      if (std::isnan(value)) missing(i);
    }
    return value;
  }

  std::int64_t class_number(std::string text) {
    const auto [known, is_new] = class_numbers_.try_emplace(std::move(text), class_numbers_.size());
    if (is_new && class_numbers_.size() > kMaxClasses) reader_.fail("more than a million classes");
    return known->second;
  }

  // Renumbers the classes by the order of their names; until then they are in order of occurrence.
  void number_classes() {
    std::vector<std::int64_t> ordered(class_numbers_.size());
    classes.reserve(class_numbers_.size());
    for (const auto& [text, number] : class_numbers_) {
      ordered[static_cast<std::size_t>(number)] = static_cast<std::int64_t>(classes.size());
      classes.push_back(text);
    }
    if (!options_.label_names) return;
    for (std::int64_t& label : y_classes) label = ordered[static_cast<std::size_t>(label)];
  }

  const std::string& name_;
  const CsvOptions& options_;
  Reader reader_;
  std::size_t width_ = 0;
  std::vector<std::string> names_;
  std::map<std::string, std::int64_t> class_numbers_;
};

template <class T>
Tensor filled_from(const std::vector<T>& values, const Shape& shape) {
  const HostTensor result = host_tensor(shape, dtype_of<T>::value);
  std::copy(values.begin(), values.end(), reinterpret_cast<T*>(result.memory));
  return result.tensor;
}

void check(const CsvOptions& options) {
  const auto require = [](bool good, const char* why) {
    if (!good) throw ArgumentError(fmt::format("read_csv: {}", why));
  };
  require(options.label_dtype == DType::f32 || options.label_dtype == DType::i64,
          "label_dtype must be f32 or i64");
  require(!options.label_names || options.labels.size() == 1,
          "label_names is for one column of labels");
  require(options.delimiter != '"' && options.delimiter != '\n' && options.delimiter != '\r',
          "the delimiter must be neither a quote nor a line end");
}

}  // namespace

CsvDataset::CsvDataset(const Tensor& x, const Tensor& y, std::vector<std::string> feature_names,
                       std::vector<std::string> classes)
    : TensorDataset(x, y), feature_names_(std::move(feature_names)), classes_(std::move(classes)) {}

CsvDataset parse_csv(std::string_view text, const std::string& name, const CsvOptions& options) {
  check(options);
  Table table(text, name, options);
  const auto width = static_cast<std::int64_t>(table.features.size()),
             label_count = static_cast<std::int64_t>(table.labels.size());
  const Tensor x = filled_from(table.x, {table.rows, width});
  Tensor y;
  if (label_count > 0) {
    const Shape shape = label_count == 1 ? Shape{table.rows} : Shape{table.rows, label_count};
    const bool integers = options.label_names || options.label_dtype == DType::i64;
    y = integers ? filled_from(table.y_classes, shape) : filled_from(table.y, shape);
  }
  std::vector<std::string> names;
  for (const std::size_t column : table.features) names.push_back(table.name_of(column));
  return {x, y, std::move(names), std::move(table.classes)};
}

CsvDataset read_csv(const std::string& path, const CsvOptions& options) {
  return parse_csv(platform::read_file(path), path, options);
}

}  // namespace volta::data
