// The tape records that a backward pass reaches, with their gradients. Several passes may run at
// once, in several threads or nested (a hook that calls grad()). The first pass marks the records
// themselves; the others use a table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/inline_vector.h"
#include "graph/record/node.h"

namespace volta::graph {

class PassRecords {
 public:
  struct Record {
    Tape* tape;
    Tensor gradient;  // sum of the gradients of its result so far
    // For a user's Function, the gradients of its outputs.
    std::unique_ptr<std::vector<Tensor>> outputs;
  };

  PassRecords();
  ~PassRecords();
  PassRecords(const PassRecords&) = delete;
  PassRecords& operator=(const PassRecords&) = delete;

  std::uint32_t pass() const { return pass_; }
  // Adds a record to start from. Roots are kept alive here, since a tensor may lose its record
  // during the pass (it may be the gradient that a leaf receives). Other records are kept alive by
  // the edges that lead to them.
  void add_root(Tape* tape);
  // Finds all records that the roots depend on, latest first.
  void reach();

  std::vector<Record>& all() { return records_; }
  Record& of(const Tape* reached) { return records_[slot(reached)]; }
  // Clears the edges of all records after the pass, so that they keep nothing alive. The oldest
  // records go first, since clearing the edges of a record may destroy older ones.
  void cut_off();

 private:
  bool add(Tape* tape);
  std::size_t slot(const Tape* tape) const { return marks_ ? tape->slot : table_.at(tape); }

  const std::uint32_t pass_;
  const bool marks_;
  std::vector<Tape*> found_;
  std::vector<Record> records_;
  InlineVector<TapeRef, 2> roots_;
  std::unordered_map<const Tape*, std::size_t> table_;
};

}  // namespace volta::graph
