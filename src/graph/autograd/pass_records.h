// The records a backward pass reaches, and what it knows of each. Several passes may be under way,
// in several threads or one inside the other (a hook that calls grad()): the first one marks the
// records themselves, the others keep a table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/inline_vector.h"
#include "graph/node.h"

namespace volta::graph {

class PassRecords {
 public:
  struct Record {
    Tape* tape;
    Tensor gradient;  // of its result, as far as it is known
    // A user's Function: the gradients of its outputs.
    std::unique_ptr<std::vector<Tensor>> outputs;
  };

  PassRecords();
  ~PassRecords();
  PassRecords(const PassRecords&) = delete;
  PassRecords& operator=(const PassRecords&) = delete;

  std::uint32_t pass() const { return pass_; }
  // Records to start from. They are held, for a root may lose its own on the way (it is the
  // gradient that a leaf is given); the others are held by who led to them.
  void add_root(Tape* tape);
  // All that the roots depend on, last recorded first.
  void reach();

  std::vector<Record>& all() { return records_; }
  Record& of(const Tape* reached) { return records_[slot(reached)]; }
  // The pass is over: they keep nothing alive below them. Oldest first: one that goes is done with.
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
