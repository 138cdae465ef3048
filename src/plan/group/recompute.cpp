// Recomputes values in a kernel instead of reading them: reading a value costs a pass over memory,
// while a few operations on values that the kernel reads anyway cost nothing. For example, a
// gradient after batch norm and relu finds out where relu was 0 from the input that it reads for
// its sums.
#include <algorithm>

#include "plan/group/grouping.h"

namespace volta::plan {
namespace {

constexpr std::size_t kMostOperations = 12;
// Additional operands must be this many times smaller than the value.
constexpr std::int64_t kFewBytes = 16;

std::int64_t bytes_of(const Value& v) {
  return v.shape.numel() * static_cast<std::int64_t>(size_of(v.dtype));
}

bool is_elementwise(const Value& v) {
  return v.kind == ValueKind::Scalar || v.kind == ValueKind::Cast;
}

bool is_cheap(const Value& v) {
  if (v.kind == ValueKind::Cast || v.is_view()) return true;
  if (v.kind != ValueKind::Scalar) return false;
  using kernel::ScalarOp;
  switch (v.op) {
    case ScalarOp::neg:
    case ScalarOp::abs:
    case ScalarOp::add:
    case ScalarOp::sub:
    case ScalarOp::mul:
    case ScalarOp::maximum:
    case ScalarOp::minimum:
    case ScalarOp::lt:
    case ScalarOp::le:
    case ScalarOp::eq:
    case ScalarOp::ne:
    case ScalarOp::where:
      return true;
    default:
      return false;
  }
}

}  // namespace

// Returns the values that the group would compute to have `id` without reading it; none if that
// takes more than a few cheap operations. `sources` receives the values that they read, which the
// group reads anyway or which are small.
std::vector<int> Grouper::computable_in(GroupId group, ValueId id,
                                        std::vector<int>& sources) const {
  const std::vector<int>& loads = loads_[group];
  const auto is_small = [&](int value) {
    return bytes_of(at(value)) * kFewBytes <= bytes_of(at(id));
  };
  std::vector<int> found{id}, stack{id}, seen{id};
  std::size_t operations = 0;
  while (!stack.empty()) {
    const int next = stack.back();
    const Value& v = at(next);
    stack.pop_back();
    if (!is_cheap(v) && !(is_small(next) && v.kind == ValueKind::Scalar)) return {};
    operations += v.is_view() ? 0 : 1;
    if (operations > kMostOperations) return {};
    for (const ValueId in : v.in) {
      if (in.is_none() || std::find(seen.begin(), seen.end(), in) != seen.end()) continue;
      seen.push_back(in);
      const ValueKind kind = at(in).kind;
      if (kind == ValueKind::Const || kind == ValueKind::Arg || kind == ValueKind::Size) continue;
      if (!grouping_.in_memory(values_, in)) {
        stack.push_back(in);
        continue;
      }
      // A result of this kernel cannot be read from memory, nor one that is not stored.
      const bool readable = kind == ValueKind::Leaf || grouping_.stored[in];
      if (!readable || grouping_.group_of[in] == group) return {};
      if (std::find(loads.begin(), loads.end(), in) != loads.end() || is_small(in)) {
        sources.push_back(in);
      } else if (is_elementwise(at(in))) {
        found.push_back(in);
        stack.push_back(in);
      } else {
        return {};
      }
    }
  }
  return found;
}

// `asked` marks values that were to be stored before grouping; other values are stored only for
// their readers.
void Grouper::compute_again(const PerValue<bool>& asked) {
  PerValue<bool> read(values_, false);
  for (const GroupId g : grouping_.groups.ids()) {
    Group& group = grouping_.groups[g];
    for (const int id : std::vector<int>(loads_[g])) {
      if (group.is_call || !is_elementwise(at(id))) continue;
      std::vector<int> sources;
      const std::vector<int> found = computable_in(g, id, sources);
      if (found.empty()) continue;
      group.again.insert(group.again.end(), found.begin(), found.end());
      std::erase(loads_[g], id);
      for (const int source : sources) {
        if (std::find(loads_[g].begin(), loads_[g].end(), source) == loads_[g].end())
          loads_[g].push_back(source);
      }
    }
    for (const int id : loads_[g]) read[id] = true;
  }
  for (Group& group : grouping_.groups) {
    if (group.is_call) continue;
    std::erase_if(group.roots, [&](ValueId root) {
      if (asked[root] || read[root] || !is_elementwise(at(root))) return false;
      grouping_.stored[root] = false;
      grouping_.group_of[root] = GroupId::none;
      return true;
    });
  }
}

}  // namespace volta::plan
