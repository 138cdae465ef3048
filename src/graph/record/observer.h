// An interface to watch the operations that a thread records and the gradients that rules return.
// AnomalyMode uses it to find NaN; tests use it to falsify results and check that golden values
// notice (tests/autograd/mutation_test.cpp).
#pragma once

#include <cstddef>
#include <span>

#include "graph/record/apply.h"

namespace volta::graph {

class RecordingObserver {
 public:
  RecordingObserver() = default;
  RecordingObserver(const RecordingObserver&) = delete;
  RecordingObserver& operator=(const RecordingObserver&) = delete;
  virtual ~RecordingObserver() = default;
  // Called with the first result of each operation, except those that gradient rules record.
  virtual void recorded(OpId op, std::span<const Borrowed> inputs, Tensor& result,
                        SourceLocation place) = 0;
  // Called with the gradient that the rule of `tape` returned for an input.
  virtual void differentiated(const Tape& tape, std::size_t input, Tensor& gradient) = 0;
};

// This thread's observer; null if there is none.
VOLTA_BACKEND_API RecordingObserver*& recording_observer();

// Replaces the value of a result and keeps its history.
VOLTA_BACKEND_API void exchange_result(Tensor& result, const Tensor& value);

}  // namespace volta::graph
