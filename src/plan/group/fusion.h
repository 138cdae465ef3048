// Decides which roots share a kernel. Every root starts as a part of its own; pairs of parts are
// joined, the pair that saves most bytes first, as long as one schedule covers both.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <queue>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plan/group/grouping.h"
#include "plan/group/space.h"
#include "plan/group/walker.h"
#include "plan/lower/visits.h"

namespace volta::plan {

// Whether one row loop can serve both: they have the same bound and direction.
bool agree(const Rows& a, const Rows& b);

// The accesses of a root over each space in which it was examined; the first one is its own space.
struct Walked {
  int instructions = 0;  // instructions over its own space
  std::vector<std::pair<Space, std::vector<Access>>> over;
  // What it reads over its own space: the values, and hashes of the values with their addresses;
  // both sorted.
  std::vector<int> reads;
  std::vector<std::uint64_t> points;
};

// The points of a space, at the sizes of planning.
struct SpaceSizes {
  std::int64_t kept = 1, all = 1;
  bool reduces = false;
  friend bool operator==(const SpaceSizes&, const SpaceSizes&) = default;
};

// Larger kernels are not built; the limits bound compile time and register use.
inline constexpr int kMaxGroupInstructions = 320;
inline constexpr std::size_t kMaxBuffers = 24;

class Fusion {
 public:
  // Groups the roots of `grouping`, whose marks are set and whose groups are not yet. `walked`
  // caches the accesses of each value; existing entries are assumed to be valid.
  Fusion(const Values& values, Grouping& grouping, bool massively_parallel,
         PerValue<Walked>& walked);
  void run();

  // Valid after run(): the groups that each group needs, and the values it reads from memory.
  Table<GroupId, std::vector<GroupId>> needs;
  Table<GroupId, std::vector<int>> loads;

 private:
  struct Part;
  using PartId = Id<Part>;
  using SpaceId = Id<Space>;
  struct Part {
    bool is_call = false;
    Space space;
    SpaceSizes sizes;             // of the space
    std::vector<int> roots;       // in order of value number
    std::vector<PartId> members;  // the initial parts joined into this one, itself included
    std::vector<int> reads;       // leaves and roots it reads, its own roots included; sorted
    // Hashes of the values it reads with their addresses, sorted.
    std::vector<std::uint64_t> points;
    int instructions = 0;
    SpaceId space_id;
    std::uint32_t phase = 0;  // phase of an expansion; different phases are not joined
    int version = 0;          // number of joins; -1 after it was joined into another part
    // Bounds in a topological order of the parts: its own first place, and the last place of the
    // part and of everything it depends on. Places are numbers of values until rank_parts().
    int first = 0, latest = 0;
  };
  // A pair of parts with the bytes that joining them saves, and the versions at which it was
  // evaluated. Pairs that save more come first, then those with the smaller part numbers.
  struct Pair {
    // Stands in for b: all pairs that defer() has postponed for a. It follows other pairs that save
    // as many bytes, so that one part after the other finds parts that have room for it.
    static constexpr PartId kDeferred = -1;
    std::int64_t saved;
    PartId a, b;
    int version_a, version_b;
    friend bool operator<(const Pair& x, const Pair& y) {
      return std::tuple(x.saved, x.b != kDeferred, -x.a, -x.b) <
             std::tuple(y.saved, y.b != kDeferred, -y.a, -y.b);
    }
  };
  // All pairs of the readers of a value are tried if there are at most this many.
  static constexpr std::size_t kFew = 16;

  const Value& at(ValueId id) const { return values_[id]; }
  Part& part(PartId number) { return parts_[number]; }
  const std::vector<Access>& accesses(ValueId root, const Space& space);
  void add_points(std::vector<std::uint64_t>& to, const std::vector<Access>& reads) const;
  const Walked& walked(ValueId root);
  void start();
  void propose_all();
  void index_readers();
  std::span<const PartId> readers_of(ValueId value) const { return readers_[value]; }
  PartId owner_of(PartId number);
  void build_need_tree();
  bool is_call(PartId number) const { return parts_[number].is_call; }
  // Whether the last needs of a part, one after the other, lead to another part.
  bool descends_from(PartId from, PartId to) const {
    const NeedNode &start = need_tree_[from], &goal = need_tree_[to];
    return goal.enter <= start.enter && start.enter < goal.enter + goal.size;
  }
  bool are_apart(PartId a, PartId b);
  void enter(PartId number);
  template <class Add>
  void add_siblings(PartId number, const Add& add);
  template <class Add>
  void add_from_shelves(PartId number, const Add& add);
  void defer(PartId number);
  void propose_deferred(PartId number);
  struct Bucket;
  template <class Add>
  void add_from(Bucket& bucket, PartId number, const Add& add);
  std::size_t demand_of(PartId number) const;
  bool has_room(const Bucket& bucket, PartId number, std::size_t demand) const;
  std::optional<std::size_t> next_with_room(Bucket& bucket, std::size_t demand, std::size_t end);
  bool waits_for(PartId a, PartId b);
  template <class Find>
  void propose_to(PartId number, const Find& find);
  void propose(PartId a, PartId b);
  void propose_neighbours(PartId number);
  std::optional<Space> joined(PartId a, PartId b);
  bool shares_points(const Part& a, const Part& b, const Space& space);
  bool leads_around(PartId from, PartId to);
  void rank_parts();
  void raise_latest(PartId number);
  void join(PartId a, PartId b, Space space);
  void finish();

  const Values& values_;
  Grouping& grouping_;
  bool massively_parallel_;
  Table<PartId, Part> parts_;
  PerValue<PartId> part_of_;        // the part whose root it is
  Lists<ValueId, PartId> readers_;  // the initial parts that read each value
  // For each initial part, the part that it was joined into (union-find).
  Table<PartId, PartId> owner_;
  // The spaces of all parts so far; parts by the points they read, and by the values they read.
  struct PointHash {
    std::size_t operator()(const std::pair<std::uint64_t, SpaceId>& key) const {
      return key.first + static_cast<std::uint64_t>(key.second) * 0x9E3779B97F4A7C15u;
    }
  };
  struct Entry {
    PartId part;        // its number when it was entered
    std::size_t first;  // the part depends, through a call, on all entries before this one
  };
  struct Bucket {
    std::vector<Entry> entries;
    bool is_ordered = true;  // whether the entries are sorted by part
    // Whether only parts that have searched have entries. Buckets with many entries become such
    // when a joined part enters them out of order.
    bool only_searched = false;
    std::size_t looked = 0;  // entries from here on have not been searched from
    // At most the instructions of any part that may enter.
    int least_instructions = kMaxGroupInstructions;
    // For each class of demand: for each number of entries, the smaller or equal number of those
    // whose last one has room for that demand (union-find). Parts only grow, so entries without
    // room, and earlier entries of a part, never come back.
    std::array<std::vector<std::size_t>, 4> roomy = {};
    bool is_large() const { return only_searched || entries.size() > kFew; }
    std::size_t last_roomy(std::size_t demand, std::size_t count);
    void drop(std::size_t demand, std::size_t entry) { roomy[demand][entry + 1] = entry; }
  };
  struct Shelf {
    SpaceId space_id;
    Bucket parts;
  };
  Table<SpaceId, std::pair<SpaceSizes, Space>> spaces_;
  std::unordered_map<std::pair<std::uint64_t, SpaceId>, Bucket, PointHash> by_point_;
  // For each value that many parts read, one shelf per space with the parts that have searched.
  PerValue<std::vector<Shelf>> shelves_;
  PerValue<int> least_instructions_;  // the fewest of a part that reads the value
  // The initial parts as a tree: a part's parent is the last part that it needs. Subtrees are
  // intervals of a preorder walk.
  struct NeedNode {
    PartId parent;       // the last part that it needs
    int calls = 0;       // calls among its ancestors
    int most_calls = 0;  // most calls along any path to a part that it depends on
    int enter = 0, size = 1;
    std::size_t first_need = 0;  // position in needed_ of the parts that it needs
  };
  Table<PartId, NeedNode> need_tree_;
  std::vector<PartId> needed_;
  // For each part, the number of the last search that visited it.
  Table<PartId, int> mark_;
  int seen_ = 0;
  // For each part, the last search through a bucket that met it, and the entry.
  Table<PartId, std::pair<int, std::size_t>> met_;
  int search_ = 0;
  Table<PartId, bool> has_searched_;  // whether propose_deferred() has been called
  std::uint64_t ranked_at_ = 0;       // visits().searched when the parts were last ranked
  std::priority_queue<Pair> pairs_;
  Visits& visits_ = visits();
  // Of single searches; members keep their memory.
  std::vector<PartId> others_, below_, above_;
  std::vector<std::pair<PartId, bool>> path_;
  PerValue<Walked>& walked_;
  Walker walker_;
};

}  // namespace volta::plan
