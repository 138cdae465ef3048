// Which roots share a kernel: groups start with one root each and are joined pair by pair, the pair
// that saves most bytes first, as long as one schedule covers both.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <vector>

#include "plan/grouping.h"
#include "plan/space.h"

namespace volta::plan {

// One place where a kernel reads memory or a root.
struct Access {
  int value;       // a leaf or a root
  Linear address;  // element number in its buffer, over the dims of the space walked
  bool known;      // whether `address` could be found
};

// How roots go over rows.
struct Rows {
  bool reduces = false, scans = false, scans_back = false;
  int bound = -1;  // the value that says how long the rows of reductions are
};
Rows rows_of(const std::vector<Value>& values, const std::vector<int>& roots);
// Whether one loop serves both: rows end at one bound and are walked one way.
bool agree(const Rows& a, const Rows& b);

// What computing a value at every point of a space reads, and about how many instructions that
// takes.
std::vector<Access> walk(const std::vector<Value>& values, const Grouping& grouping, int id,
                         const Space& space, int& instructions);

// Whether the value can be computed along with the group that has the space: it fits, and reads
// the group's roots at its own points only.
bool fits(const std::vector<Value>& values, const Grouping& grouping, int id, int group);

class Fusion {
 public:
  // Groups the roots of `grouping` (its marks are set, its groups are not yet).
  Fusion(const std::vector<Value>& values, Grouping& grouping, bool wide_device);
  void run();

  // Per group, valid after run(): the groups it needs, and the values it reads from memory.
  std::vector<std::vector<int>> needs;
  std::vector<std::vector<int>> loads;

 private:
  struct Part {
    bool is_call = false;
    Space space;
    std::vector<int> roots;             // in order of value number
    std::vector<int> reads;             // leaves and roots it reads, its own included; sorted
    std::vector<std::uint64_t> points;  // which of them at which address, as hashes; sorted
    int instructions = 0;
    std::uint32_t stage = 0;  // of an expansion: two are not joined
    int version = 0;          // counts joins; -1: gone into another
    int latest = 0;           // the last root of the part and of all it needs, directly or not
  };
  // Bytes saved, then the roots of both (smaller first), then the versions they were valued at.
  struct Pair {
    std::int64_t saved;
    int a, b, version_a, version_b;
    friend bool operator<(const Pair& x, const Pair& y) {
      return std::tuple(x.saved, -x.a, -x.b) < std::tuple(y.saved, -y.a, -y.b);
    }
  };

  const Value& at(int id) const { return values_[static_cast<std::size_t>(id)]; }
  Part& part(int number) { return parts_[static_cast<std::size_t>(number)]; }
  const std::vector<Access>& accesses(int root, const Space& space);
  void add_points(Part& to, const std::vector<Access>& reads) const;
  void start();
  void find_apart();
  bool are_apart(int a, int b) const;
  void propose(int a, int b);
  void propose_neighbours(int number);
  std::optional<Space> joined(int a, int b);
  bool shares_points(const Part& a, const Part& b, const Space& space);
  bool leads_around(int from, int to);
  void raise_latest(int number);
  void join(int a, int b, Space space);
  void finish();

  const std::vector<Value>& values_;
  Grouping& grouping_;
  bool wide_device_;
  std::vector<Part> parts_;
  std::vector<int> part_of_;               // per value: the part whose root it is, or -1
  std::vector<std::vector<int>> readers_;  // per value: parts that read it
  // Per part, as they were at the start: a bit for each kernel that it needs through a call.
  std::vector<std::uint64_t> apart_;
  std::size_t apart_words_ = 0;
  std::vector<std::size_t> bit_of_;  // per part that is a kernel
  std::priority_queue<Pair> pairs_;
  // Per root: what it reads, over the spaces it was looked at in.
  std::vector<std::vector<std::pair<Space, std::vector<Access>>>> walked_;
};

// The iteration space of a root: of a reduction its operand's shape, else its own.
Space space_of_root(const std::vector<Value>& values, int id);

// The index of a root's own value at a point of the space.
std::optional<IndexMap> root_index(const std::vector<Value>& values, int id, const Space& space);

}  // namespace volta::plan
