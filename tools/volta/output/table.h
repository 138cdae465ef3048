// Tables that fit the terminal: texts are shortened and, if that is not enough, columns are
// dropped, the least important first. Numbers are never cut.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "output/terminal.h"

namespace volta::cli {

enum class Align { left, right };

struct Column {
  std::string title;
  Align align = Align::left;
  int importance = 1;     // the column with the lowest is dropped first; one column always stays
  bool shortens = false;  // texts may be cut, down to a few characters
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Adds a row with one text for each column; the texts may come from untrusted files.
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.empty(); }

  // Prints a line of titles if any column has one. Each line begins with `indent` spaces.
  void print(std::ostream& out, const Terminal& terminal, int indent = 0) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace volta::cli
