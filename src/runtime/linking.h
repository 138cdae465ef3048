// Which batches are planned as a whole and which are linked from stretches.
//
// A program whose steps repeat is planned as a whole from its first step on. Only if the structures
// of several large batches in a row were unknown, unknown ones are linked until large batches are
// known again for a while. A structure that keeps coming back is planned as a whole after all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>

#include "graph/record/recorder.h"

namespace volta::plan {

struct DeviceRuntime;

// Planning smaller batches as a whole costs little.
inline constexpr std::size_t kLeastLinkedNodes = 64;
// So many unknown structures in a row make a recorder one that varies, and so many known ones end
// that. Programs of a few phases, or whose first steps create state, come with up to five before
// they repeat.
inline constexpr std::uint32_t kUnknownInARow = 6, kKnownInARow = 16;
// So often a structure is linked before it is planned as a whole.
inline constexpr std::uint32_t kMostLinks = 2;
// So many linked plans are kept, as few of them are used again.
inline constexpr std::size_t kMaxLinkedPlans = 64;

// How often structures were linked; the ones linked first are forgotten first.
class LinkedStructures {
 public:
  std::uint32_t times(const graph::Hash& structure) const;
  void note(const graph::Hash& structure);
  void clear();

 private:
  static constexpr std::size_t kMost = 4096;
  struct HashOfHash {
    std::size_t operator()(const graph::Hash& hash) const { return hash.a; }
  };
  std::unordered_map<graph::Hash, std::uint32_t, HashOfHash> times_;
  std::deque<graph::Hash> order_;
};

// Whether a batch whose key is unknown is linked.
bool is_to_be_linked(const DeviceRuntime& runtime, const graph::Familiarity& familiarity,
                     const graph::Batch& batch, const graph::Hash& structure);
// To be told of every batch: whether its plan or its structure was known.
void note_batch(graph::Familiarity& familiarity, const graph::Batch& batch, bool is_known);

// For tests.
enum class Linking : std::uint8_t { Never, WhereStepsVary, Always };
VOLTA_BACKEND_API void set_linking(Linking linking);

}  // namespace volta::plan
