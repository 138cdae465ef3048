// Seeing operations as a thread records them, and gradients as rules give them. AnomalyMode looks
// for NaN this way; tests see to it that nothing wrong goes unnoticed (tests/mutation_test.cpp).
#pragma once

#include <cstddef>
#include <span>

#include "graph/apply.h"

namespace volta::graph {

class RecordingObserver {
 public:
  RecordingObserver() = default;
  RecordingObserver(const RecordingObserver&) = delete;
  RecordingObserver& operator=(const RecordingObserver&) = delete;
  virtual ~RecordingObserver() = default;
  // The first result of an operation; not of those that gradient rules record.
  virtual void recorded(OpId op, std::span<const Borrowed> inputs, Tensor& result, Place place) = 0;
  // What the rule of `tape` gave for an input.
  virtual void differentiated(const Tape& tape, std::size_t input, Tensor& gradient) = 0;
};

// Of this thread; null: nobody looks.
VOLTA_BACKEND_API RecordingObserver*& recording_observer();

// Another value for a result; its history stays as it is.
VOLTA_BACKEND_API void exchange_result(Tensor& result, const Tensor& value);

}  // namespace volta::graph
