// Checks of the report's markup and of what its charts draw.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "report/chart.h"

namespace volta::report_testing {

using namespace report;

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

// Finds the first error in the page's markup, or returns "": elements must be closed in order,
// attributes quoted and unique, text must not look like markup, ids must be unique, and characters
// valid.
class MarkupCheck {
 public:
  explicit MarkupCheck(std::string_view page) : rest_(page) {}

  std::string run() {
    const std::string_view doctype = "<!DOCTYPE html>\n";
    if (!rest_.starts_with(doctype)) return "no doctype";
    rest_.remove_prefix(doctype.size());
    while (!rest_.empty() && fault_.empty()) {
      if (rest_.front() == '<')
        tag();
      else
        text(rest_.substr(0, rest_.find('<')));
    }
    if (fault_.empty() && !open_.empty()) fault_ = open_.back() + " is not closed";
    return fault_;
  }

 private:
  void fail(const std::string& what) {
    if (fault_.empty()) fault_ = what + " near: " + std::string(rest_.substr(0, 120));
  }

  void characters(std::string_view part) {
    for (std::size_t at = part.find('&'); at != std::string_view::npos;
         at = part.find('&', at + 1)) {
      bool known = false;
      for (const char* name : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"})
        known = known || part.substr(at).starts_with(name);
      if (!known) fail("a bare ampersand");
    }
    for (const char c : part) {
      if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t')
        fail("a control character");
    }
  }

  void text(std::string_view part) {
    if (part.find('>') != std::string_view::npos) fail("a bare >");
    if (open_.empty() && part.find_first_not_of(" \n") != std::string_view::npos)
      fail("text outside of elements");
    characters(part);
    rest_.remove_prefix(part.size());
  }

  std::string_view name() {
    const std::size_t end =
        rest_.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
    const std::string_view found = rest_.substr(0, end);
    rest_.remove_prefix(found.size());
    if (found.empty()) fail("a name is missing");
    return found;
  }

  bool skip(std::string_view what) {
    if (!rest_.starts_with(what)) return false;
    rest_.remove_prefix(what.size());
    return true;
  }

  void tag() {
    skip("<");
    if (skip("/")) {
      const std::string_view closed = name();
      if (!skip(">") || open_.empty() || open_.back() != closed)
        return fail("a wrong end of " + std::string(closed));
      open_.pop_back();
      return;
    }
    const std::string element(name());
    std::set<std::string_view> given;
    while (skip(" ")) {
      const std::string_view attribute = name();
      if (!given.insert(attribute).second) return fail("an attribute given twice");
      if (attribute.starts_with("on")) return fail("an inline handler");
      if (!skip("=\"")) return fail("an attribute without quotes");
      const std::string_view value = rest_.substr(0, rest_.find('"'));
      if (value.find_first_of("<>") != std::string_view::npos)
        return fail("a bare < or > in an attribute");
      characters(value);
      if (attribute == "id" && !ids_.insert(std::string(value)).second)
        return fail("an id used twice");
      if ((attribute == "src" || attribute == "href") &&
          !value.starts_with("data:image/png;base64,"))
        return fail("a reference out of the page");
      rest_.remove_prefix(value.size());
      skip("\"");
    }
    if (skip("/>")) return;
    if (!skip(">")) return fail("a tag without its end");
    open_.push_back(element);
    if (element == "script" || element == "style") {
      const std::size_t end = rest_.find("</");
      if (!rest_.substr(std::min(end, rest_.size())).starts_with("</" + element + ">"))
        return fail(element + " contains </");
      rest_.remove_prefix(end);
    }
  }

  std::string_view rest_;
  std::string fault_;
  std::vector<std::string> open_;
  std::set<std::string> ids_;
};

inline std::string fault_of(const std::string& page) { return MarkupCheck(page).run(); }

inline bool contains(const std::string& page, std::string_view part) {
  return page.find(part) != std::string::npos;
}

inline std::size_t count(const std::string& page, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = page.find(part); at != std::string::npos;
       at = page.find(part, at + part.size()))
    ++found;
  return found;
}

// The value of the attribute in the first tag with this beginning.
inline std::string attribute(const std::string& page, const std::string& tag,
                             const std::string& name) {
  const std::size_t at = page.find(tag);
  if (at == std::string::npos) return "no " + tag;
  const std::size_t from = page.find(" " + name + "=\"", at) + name.size() + 3;
  return page.substr(from, page.find('"', from) - from);
}

// The coordinates of a path's points; the pen is lifted where a new run begins.
struct Drawn {
  double x = 0, y = 0;
  bool begins = false;
};
inline std::vector<Drawn> drawn(const std::string& path) {
  std::vector<Drawn> points;
  const char* at = path.c_str();
  while (*at != '\0') {
    Drawn point;
    if (*at == 'M') {
      point.begins = true;
      ++at;
    } else if (*at == ' ') {
      ++at;
    }
    char* end = nullptr;
    point.x = std::strtod(at, &end);
    if (end == at || *end != ',') ADD_FAILURE() << "not a path: " << at;
    if (end == at || *end != ',') return points;
    at = end + 1;
    point.y = std::strtod(at, &end);
    at = end;
    if (std::string_view(at).starts_with("h0")) at += 2;
    points.push_back(point);
  }
  return points;
}

inline Chart one_line(std::vector<double> x, std::vector<double> y) {
  Chart chart;
  chart.title = "Loss";
  chart.series = {{.name = "training", .x = std::move(x), .y = std::move(y)}};
  return chart;
}

inline std::string line_of(const Chart& chart) {
  return attribute(chart_markup(chart, 0, 400), "<path class=\"line c0\"", "d");
}

}  // namespace volta::report_testing
