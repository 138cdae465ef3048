// Which batches are planned as a whole and which are linked from stretches.
//
// A program whose steps repeat is planned as a whole from its first step on. Only if several large
// batches in a row had unknown structures, although they consist of stretches that came before,
// further ones are linked: from long stretches if those came before, else from short ones. A
// structure that keeps coming back is planned as a whole after all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>

#include "graph/record/recorder.h"
#include "plan/stretches.h"

namespace volta::plan {

// Planning smaller batches as a whole costs little.
inline constexpr std::size_t kLeastLinkedNodes = 64;
// So many unknown structures in a row make a recorder one whose steps vary, and so many known ones
// end that. Programs of a few phases whose first steps create state come with up to four before
// they repeat.
inline constexpr std::uint32_t kUnknownInARow = 5, kKnownInARow = 16;
// So often a structure is linked before it is planned as a whole.
inline constexpr std::uint32_t kMostLinks = 2;
// So many linked plans are kept, as few of them are used again.
inline constexpr std::size_t kMaxLinkedPlans = 64;

// How often something came, by its hash; what came first is forgotten first.
class Occurrences {
 public:
  explicit Occurrences(std::size_t most) : most_(most) {}
  std::uint32_t of(const graph::Hash& hash) const;
  void note(const graph::Hash& hash);
  void clear();

 private:
  std::size_t most_;
  std::unordered_map<graph::Hash, std::uint32_t, graph::HashOfHash> times_;
  std::deque<graph::Hash> order_;
};

// What a linked plan is made from: the structure of the batch, and stretches of this length.
struct Linked {
  graph::Hash structure;
  StretchLength length;
};

// What a device remembers of batches that might be linked.
struct LinkHistory {
  Occurrences stretches{16384};  // of batches whose structure was unknown
  Occurrences structures{4096};  // of linked plans
  std::size_t plans = 0;         // linked ones that are in the cache of plans
};

// To be told of a batch whose plan or structure was known.
void note_known(graph::Familiarity& familiarity, const graph::Batch& batch);
// To be told of a large batch whose structure was unknown. Returns the stretches from which it is
// to be linked; null if it is to be planned as a whole. Long stretches are preferred.
std::unique_ptr<Stretches> note_unknown(graph::Familiarity& familiarity, LinkHistory& history,
                                        const graph::Hash& structure, const graph::Batch& batch);
// The stretches from which it would be linked, if that were the next batch.
std::unique_ptr<Stretches> would_be_linked(const graph::Familiarity& familiarity,
                                           const LinkHistory& history, const graph::Hash& structure,
                                           const graph::Batch& batch);

// For tests.
enum class Linking : std::uint8_t { Never, WhereStepsVary, Always, AlwaysShort };
VOLTA_BACKEND_API void set_linking(Linking linking);
// Whether a batch is so large that linking is considered.
bool may_be_linked(const graph::Batch& batch);

}  // namespace volta::plan
