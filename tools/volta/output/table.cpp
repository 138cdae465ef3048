// Column widths and lines of tables.
#include "output/table.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace volta::cli {
namespace {

constexpr int kGap = 2;
constexpr int kShortest = 8;  // width down to which texts are cut

struct Shown {
  std::size_t column;
  int width;
};

int total(const std::vector<Shown>& shown) {
  int sum = kGap * (static_cast<int>(shown.size()) - 1);
  for (const Shown& one : shown) sum += one.width;
  return sum;
}

std::string padded(const std::string& text, int width, Align align) {
  const std::string space(static_cast<std::size_t>(std::max(0, width - display_width(text))), ' ');
  return align == Align::right ? space + text : text + space;
}

// Cuts the widest of the columns that allow it until all fit; returns false if they cannot.
bool shorten(std::vector<Shown>& shown, const std::vector<Column>& columns, int limit) {
  while (total(shown) > limit) {
    Shown* widest = nullptr;
    for (Shown& one : shown) {
      if (columns[one.column].shortens && one.width > kShortest &&
          (widest == nullptr || one.width > widest->width))
        widest = &one;
    }
    if (widest == nullptr) return false;
    widest->width = std::max(kShortest, widest->width - (total(shown) - limit));
  }
  return true;
}

}  // namespace

void Table::print(std::ostream& out, const Terminal& terminal, int indent) const {
  const int limit = terminal.wraps ? terminal.columns - indent : std::numeric_limits<int>::max();
  std::vector<std::vector<std::string>> cells;
  cells.reserve(rows_.size());
  for (const std::vector<std::string>& row : rows_) {
    std::vector<std::string> texts;
    for (const std::string& text : row) texts.push_back(printable(text, terminal));
    cells.push_back(std::move(texts));
  }
  std::vector<Shown> natural;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    int width = display_width(columns_[i].title);
    for (const auto& row : cells) width = std::max(width, display_width(row[i]));
    natural.push_back({i, width});
  }
  std::vector<Shown> shown = natural;
  while (!shorten(shown, columns_, limit) && natural.size() > 1) {
    const auto least = std::ranges::min_element(
        natural, {}, [&](const Shown& one) { return columns_[one.column].importance; });
    natural.erase(least);
    shown = natural;
  }
  if (shown.size() == 1) shown[0].width = std::min(shown[0].width, limit);

  const std::string margin(static_cast<std::size_t>(indent), ' ');
  const auto line = [&](const auto& text_of) {
    std::string result;
    for (const Shown& one : shown) {
      if (!result.empty()) result += std::string(kGap, ' ');
      result += padded(shortened(text_of(one.column), one.width, terminal), one.width,
                       columns_[one.column].align);
    }
    result.erase(result.find_last_not_of(' ') + 1);
    return result;
  };
  if (std::ranges::any_of(columns_, [](const Column& column) { return !column.title.empty(); }))
    out << margin << terminal.bold(line([&](std::size_t i) { return columns_[i].title; })) << '\n';
  for (const auto& row : cells)
    out << margin << line([&](std::size_t i) { return row[i]; }) << '\n';
}

}  // namespace volta::cli
