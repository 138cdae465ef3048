// Places temporaries in the arena: the largest first, each at the first address that is free during
// its lifetime.
#include "plan/arena.h"

#include <algorithm>
#include <bit>

#include "plan/lower/visits.h"

namespace volta::plan {
namespace {

struct Interval {
  std::size_t first, last;
  std::uint64_t bytes;
};

std::uint64_t rounded(std::uint64_t bytes) { return (bytes + 255) & ~255ull; }

// Occupied addresses, as disjoint ranges that do not touch, in ascending order.
class Ranges {
 public:
  void add(std::uint64_t begin, std::uint64_t end) {
    auto first =
        std::lower_bound(ranges_.begin(), ranges_.end(), begin,
                         [](const Range& range, std::uint64_t at) { return range.end < at; });
    auto last = first;
    for (; last != ranges_.end() && last->begin <= end; ++last) {
      begin = std::min(begin, last->begin);
      end = std::max(end, last->end);
    }
    if (first == last) {
      ranges_.insert(first, {begin, end});
    } else {
      *first = {begin, end};
      ranges_.erase(first + 1, last);
    }
  }
  // The first address from `at` on with room for `bytes`.
  std::uint64_t room(std::uint64_t at, std::uint64_t bytes) const {
    ++visits().placed;
    auto next = std::upper_bound(ranges_.begin(), ranges_.end(), at,
                                 [](std::uint64_t a, const Range& range) { return a < range.end; });
    for (; next != ranges_.end() && next->begin < at + std::max<std::uint64_t>(bytes, 1); ++next) {
      ++visits().placed;
      at = std::max(at, next->end);
    }
    return at;
  }

 private:
  struct Range {
    std::uint64_t begin, end;
  };
  std::vector<Range> ranges_;
};

// A segment tree over the steps that records occupied addresses. A node stores the ranges that are
// taken during all of its steps (`whole_`) and during any of them (`any_`). A lifetime is covered
// by a few nodes; conflicts are found in these nodes and in their ancestors.
class Arena {
 public:
  explicit Arena(std::size_t steps) : leaves_(std::bit_ceil(std::max<std::size_t>(steps, 1))) {
    whole_.resize(2 * leaves_);
    any_.resize(2 * leaves_);
  }

  std::uint64_t place(const Interval& life) {
    std::vector<const Ranges*> taken;
    const std::vector<std::size_t> nodes = nodes_of(life);
    for (const std::size_t node : nodes) taken.push_back(&any_[node]);
    for (const std::size_t node : ancestors_of(nodes)) taken.push_back(&whole_[node]);
    std::uint64_t at = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (const Ranges* ranges : taken) {
        const std::uint64_t next = ranges->room(at, life.bytes);
        moved = moved || next != at;
        at = next;
      }
    }
    if (life.bytes > 0) {
      for (const std::size_t node : nodes) {
        whole_[node].add(at, at + life.bytes);
        any_[node].add(at, at + life.bytes);
      }
      for (const std::size_t node : ancestors_of(nodes)) any_[node].add(at, at + life.bytes);
    }
    return at;
  }

 private:
  std::vector<std::size_t> nodes_of(const Interval& life) const {
    std::vector<std::size_t> nodes;
    std::size_t begin = life.first + leaves_, end = life.last + 1 + leaves_;
    for (; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 == 1) nodes.push_back(begin++);
      if (end % 2 == 1) nodes.push_back(--end);
    }
    return nodes;
  }
  static std::vector<std::size_t> ancestors_of(const std::vector<std::size_t>& nodes) {
    std::vector<std::size_t> ancestors;
    for (std::size_t node : nodes) {
      while ((node /= 2) > 0) ancestors.push_back(node);
    }
    std::sort(ancestors.begin(), ancestors.end());
    ancestors.erase(std::unique(ancestors.begin(), ancestors.end()), ancestors.end());
    return ancestors;
  }

  std::size_t leaves_;
  std::vector<Ranges> whole_, any_;  // for each node; node n has the children 2n and 2n + 1
};

}  // namespace

std::uint64_t place_temporaries(std::span<const Temporary> temporaries,
                                std::span<const std::uint64_t> bytes,
                                std::vector<std::uint64_t>& offsets) {
  std::vector<std::size_t> order(temporaries.size());
  std::size_t steps = 0;
  for (std::size_t n = 0; n < order.size(); ++n) {
    order[n] = n;
    steps = std::max(steps, temporaries[n].last + 1);
  }
  // First fit by decreasing size.
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return rounded(bytes[a]) > rounded(bytes[b]);
  });
  Arena arena(steps);
  std::uint64_t size = 0;
  offsets.assign(temporaries.size(), 0);
  for (const std::size_t n : order) {
    const Interval life{temporaries[n].first, temporaries[n].last, rounded(bytes[n])};
    offsets[n] = arena.place(life);
    size = std::max(size, offsets[n] + life.bytes);
  }
  return size;
}

}  // namespace volta::plan
