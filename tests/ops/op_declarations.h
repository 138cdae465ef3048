// The public operations, as the headers declare them: what docs/ops.md is made of, and what other
// tests must be complete for.
#pragma once

#include <string>
#include <vector>

namespace volta::declarations {

struct Operation {
  std::string name;
  std::vector<std::string> signatures;  // one line each, without the place
  std::vector<std::string> comments;
  std::vector<std::string> types;  // option structs that the signatures name
};

// What stands under one "// ---- Title." of a header.
struct Group {
  std::string title;
  std::string introduction;  // the rest of that comment; may be empty
  std::vector<Operation> operations;
};

// A header's declarations from its text: everything, or the methods of a class. `types` is the text
// of option structs from elsewhere.
std::vector<Group> parse_header(const std::string& text, const std::string& types = "");
std::vector<Group> parse_class(const std::string& text, const std::string& name);

// ops.h; then the methods of Tensor that are operations and no function of ops.h.
const std::vector<Group>& public_operations();

// A file of the source tree.
std::string source_path(const std::string& path);
std::string read_source(const std::string& path);

}  // namespace volta::declarations
