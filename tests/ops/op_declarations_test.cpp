// Reads declarations from our own headers. A comment stands after a function, or above several
// functions up to the next blank line. A title's comment ends with the line that ends a sentence.
#include "ops/op_declarations.h"
#include "support/paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>

namespace volta::declarations {
namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

std::string joined(const std::string& a, const std::string& b) {
  return a.empty() ? b : b.empty() ? a : a + " " + b;
}

bool starts_with(const std::string& text, const std::string& start) {
  return text.rfind(start, 0) == 0;
}

// A line without its comment, and the comment.
struct Line {
  std::string code, comment;
  explicit Line(const std::string& line) {
    const auto at = line.find("//");
    code = trimmed(line.substr(0, at));
    if (at != std::string::npos) comment = trimmed(line.substr(at + 2));
    if (starts_with(comment, "NOLINT")) comment.clear();
  }
};

std::string signature_of(std::string text) {
  static const std::regex export_macro("VOLTA_API "), spaces("\\s+"),
      place(",? ?SourceLocation place( = SourceLocation::here\\(\\))?");
  text = std::regex_replace(text, export_macro, "");
  text = std::regex_replace(text, spaces, " ");
  text = std::regex_replace(text, place, "");
  return trimmed(text);
}

std::string name_of(const std::string& signature) {
  static const std::regex name("(operator[^ (]+|\\w+)\\(");
  std::smatch found;
  return std::regex_search(signature, found, name) ? found[1].str() : "";
}

bool is_type(const std::string& code) {
  return starts_with(code, "struct ") || starts_with(code, "enum ");
}

class Parser {
 public:
  void read(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) read(Line(line), trimmed(line).empty());
  }
  std::vector<Group> groups() {
    for (Group& group : groups_) {
      for (Operation& operation : group.operations) add_types(operation);
    }
    return std::move(groups_);
  }

 private:
  struct Type {
    std::string name, text, comment;
  };

  void read(const Line& line, bool blank) {
    if (!statement_.empty()) {
      go_on(line);
    } else if (blank) {
      comment_.clear();
      in_comment_ = in_title_ = false;
    } else if (line.code.empty()) {
      read_comment(line.comment);
    } else {
      in_comment_ = in_title_ = false;
      if (!groups_.empty() || is_type(line.code)) go_on(line);
    }
  }

  void read_comment(const std::string& text) {
    if (starts_with(text, "----")) {
      const std::string title = trimmed(text.substr(4));
      groups_.push_back({title.substr(0, title.find_first_of(".,;:(")), title, {}});
      groups_.back().title = trimmed(groups_.back().title);
      comment_.clear();
      in_title_ = title.back() != '.';
    } else if (in_title_) {
      groups_.back().introduction += " " + text;
      in_title_ = text.back() != '.';
    } else {
      comment_ = in_comment_ ? joined(comment_, text) : text;
      in_comment_ = true;
    }
  }

  void go_on(const Line& line) {
    statement_ = joined(statement_, line.code);
    if (!is_type(statement_)) {
      behind_ = joined(behind_, line.comment);
    } else if (!line.comment.empty()) {
      statement_ += " /* " + line.comment + " */";
    }
    int round = 0, curly = 0;
    bool body = false;
    for (const char c : statement_) {
      round += c == '(' ? 1 : c == ')' ? -1 : 0;
      curly += c == '{' ? 1 : c == '}' ? -1 : 0;
      body = body || (c == '{' && round == 0);
    }
    const char last = line.code.empty() ? ' ' : line.code.back();
    if (round != 0 || curly != 0 || (last != ';' && !(body && last == '}'))) return;
    finish();
    statement_.clear();
    behind_.clear();
  }

  void finish() {
    static const std::regex type("(struct|enum class|enum) (\\w+).*[{].*");
    std::smatch found;
    if (is_type(statement_)) {
      if (std::regex_match(statement_, found, type))
        types_.push_back({found[2], fields_of(statement_, found[2]), comment_});
      return;
    }
    std::string text = statement_.substr(0, statement_.rfind(')') + 1);
    // The body may contain calls, so the declaration ends before it.
    for (std::size_t i = 0, round = 0; i < statement_.size(); ++i) {
      round += statement_[i] == '(' ? 1u : 0u;
      round -= statement_[i] == ')' ? 1u : 0u;
      if (round != 0 || statement_[i] != '{') continue;
      text = statement_.substr(0, statement_.rfind(')', i) + 1);
      break;
    }
    if (text.find('(') == std::string::npos) return;
    add(signature_of(text));
  }

  // Removes constructors and comparisons from the text of a type.
  static std::string fields_of(const std::string& statement, const std::string& name) {
    const std::regex constructor(" *(constexpr|explicit) [^;{]*\\b" + name +
                                 "\\([^{;]*[{][^}]*[}]|"
                                 " *friend [^;]*;");
    return std::regex_replace(statement.substr(0, statement.rfind(';')), constructor, "");
  }

  void add(const std::string& signature) {
    std::vector<Operation>& all = groups_.back().operations;
    const std::string name = name_of(signature);
    auto found =
        std::find_if(all.begin(), all.end(), [&](const Operation& o) { return o.name == name; });
    if (found == all.end()) found = all.insert(all.end(), {name, {}, {}, {}});
    found->signatures.push_back(signature);
    for (const std::string& comment : {comment_, behind_}) add_comment(*found, comment);
  }

  // Adds the types that signatures use, and the types that these use, which were declared before.
  void add_types(Operation& operation) const {
    std::vector<std::string> texts = operation.signatures;
    for (auto type = types_.rbegin(); type != types_.rend(); ++type) {
      const std::regex name("\\b" + type->name + "\\b");
      const auto names = [&](const std::string& text) { return std::regex_search(text, name); };
      if (std::none_of(texts.begin(), texts.end(), names)) continue;
      texts.push_back(type->text);
      operation.types.insert(operation.types.begin(), type->text);
      add_comment(operation, type->comment);
    }
  }

  static void add_comment(Operation& operation, const std::string& comment) {
    std::vector<std::string>& all = operation.comments;
    if (!comment.empty() && std::count(all.begin(), all.end(), comment) == 0)
      all.push_back(comment);
  }

  std::vector<Group> groups_;
  std::vector<Type> types_;
  std::string comment_;  // comment on the declarations up to a blank line or the next comment
  std::string statement_, behind_;
  bool in_comment_ = false, in_title_ = false;
};

// Whether the section of Tensor contains operations.
bool is_of_operations(const Group& group) {
  static const std::set<std::string> titles{"Copies and conversions", "In place", "Parts",
                                            "Operations as methods"};
  return titles.count(group.title) != 0;
}

}  // namespace

std::vector<Group> parse_header(const std::string& text, const std::string& types) {
  Parser parser;
  parser.read(types);
  parser.read(text);
  return parser.groups();
}

std::vector<Group> parse_class(const std::string& text, const std::string& name) {
  const auto first = text.find("class VOLTA_API " + name + " {");
  const auto last = text.find("\n private:", first);
  if (first == std::string::npos || last == std::string::npos)
    throw std::runtime_error("no class " + name);
  return parse_header(text.substr(first, last - first), text.substr(0, first));
}

std::string source_path(const std::string& path) { return paths::source_tree() + "/" + path; }

std::string read_source(const std::string& path) {
  std::ifstream file(source_path(path));
  if (!file) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

const std::vector<Group>& public_operations() {
  static const std::vector<Group> all = [] {
    const std::string tensor = read_source("include/volta/tensor.h");
    const std::string types = tensor.substr(0, tensor.find("class VOLTA_API Tensor {"));
    std::vector<Group> groups;
    for (const char* header : {"ops.h", "convolution.h", "pooling.h", "attention.h", "recurrent.h",
                               "normalization.h", "losses.h"}) {
      for (Group& group :
           parse_header(read_source(std::string("include/volta/") + header), types)) {
        groups.push_back(std::move(group));
      }
    }
    std::set<std::string> functions;
    for (const Group& group : groups) {
      for (const Operation& operation : group.operations) functions.insert(operation.name);
    }
    for (Group& group : parse_class(tensor, "Tensor")) {
      if (!is_of_operations(group)) continue;
      auto& own = group.operations;
      own.erase(std::remove_if(own.begin(), own.end(),
                               [&](const Operation& o) { return functions.count(o.name) != 0; }),
                own.end());
      groups.push_back(std::move(group));
    }
    return groups;
  }();
  return all;
}

namespace {

TEST(OpDeclarations, NamesSignaturesCommentsAndTypes) {
  const std::vector<Group> groups = parse_header(R"(
// Before everything.
namespace volta {
// ---- Elementwise, of numbers. They are
// fast.
// Of two.
API Tensor add(const Operand& a, const Operand& b);  // a + b
VOLTA_API Tensor sub(const Operand& a,
                     const Operand& b);

struct Options {
  bool fast = false;  // or not
};
VOLTA_API Tensor gelu(const Tensor& x, SourceLocation place = SourceLocation::here());  // exact
VOLTA_API Tensor gelu(const Tensor& x, Options options = {}, SourceLocation place = SourceLocation::here());
struct Extent {
  int high = 0, wide = 0;
  constexpr Extent(int both) : high(both), wide(both) {}  // NOLINT: implicit
  constexpr Extent(int h, int w) : high(h), wide(w) {}
  friend constexpr bool operator==(Extent, Extent) = default;
};
VOLTA_API Tensor pool(const Tensor& x, Extent kernel);
// ---- In place.
Tensor& zero_(SourceLocation place = SourceLocation::here()) & { return fill_(0, place); }
Selection operator[](const Index& index) const;
}  // namespace volta
)");
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].title, "Elementwise");
  EXPECT_EQ(groups[0].introduction, "Elementwise, of numbers. They are fast.");
  ASSERT_EQ(groups[0].operations.size(), 4u);
  using Texts = std::vector<std::string>;
  const Operation &add = groups[0].operations[0], &sub = groups[0].operations[1],
                  &gelu = groups[0].operations[2], &pool = groups[0].operations[3];
  EXPECT_EQ(add.name, "add");
  EXPECT_EQ(add.comments, (Texts{"Of two.", "a + b"}));
  EXPECT_EQ(sub.signatures, (Texts{"Tensor sub(const Operand& a, const Operand& b)"}));
  EXPECT_EQ(sub.comments, (Texts{"Of two."}));
  EXPECT_EQ(gelu.signatures, (Texts{"Tensor gelu(const Tensor& x)",
                                    "Tensor gelu(const Tensor& x, Options options = {})"}));
  EXPECT_EQ(gelu.types, (Texts{"struct Options { bool fast = false; /* or not */ }"}));
  EXPECT_EQ(pool.types, (Texts{"struct Extent { int high = 0, wide = 0; }"}));
  EXPECT_EQ(gelu.comments, (Texts{"exact"}));
  ASSERT_EQ(groups[1].operations.size(), 2u);
  EXPECT_EQ(groups[1].operations[0].signatures, (Texts{"Tensor& zero_()"}));
  EXPECT_EQ(groups[1].operations[1].name, "operator[]");
}

TEST(OpDeclarations, TheHeadersAreRead) {
  std::size_t count = 0;
  std::set<std::string> names;
  for (const Group& group : public_operations()) {
    for (const Operation& operation : group.operations) {
      ++count;
      EXPECT_TRUE(names.insert(operation.name).second) << operation.name;
    }
  }
  for (const char* name : {"add", "gelu", "cross_entropy", "operator[]", "unfold", "to"})
    EXPECT_EQ(names.count(name), 1u) << name;
  EXPECT_GT(count, 140u);
}

}  // namespace
}  // namespace volta::declarations
