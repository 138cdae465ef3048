// How a thread records: what is asked for every node, in one place.
#pragma once

#include <cstdint>

namespace volta::graph {

class RecordingObserver;
class TapeCollector;

struct RecordingState {
  bool history = true;
  std::uint32_t epoch = 0;                // of stretches computed again (Node::epoch)
  RecordingObserver* observer = nullptr;  // graph/observer.h
  TapeCollector* collector = nullptr;     // graph/tape_extras.h: the innermost
};
extern constinit thread_local RecordingState recording_state;

// Whether this thread records history.
inline bool& grad_mode() { return recording_state.history; }

}  // namespace volta::graph
