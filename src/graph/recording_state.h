// How a thread records: what is asked for every node, in one place.
#pragma once

#include <cstdint>

#include "volta/dtype.h"
#include "volta/scope.h"

namespace volta::graph {

class RecordingObserver;
class TapeCollector;
struct CastCache;

struct RecordingState {
  bool history = true;
  DType autocast = DType::f32;            // what products are computed in (graph/autocast.h)
  std::uint32_t epoch = 0;                // of stretches computed again (Node::epoch)
  RecordingObserver* observer = nullptr;  // graph/observer.h
  TapeCollector* collector = nullptr;     // graph/tape_extras.h: the innermost
  CastCache* casts = nullptr;             // parameters that the scopes converted, if any; theirs
  // The innermost ones that are open.
  Scope<bool>* history_scope = nullptr;
  Scope<DType>* autocast_scope = nullptr;
};
extern constinit thread_local RecordingState recording_state;

// Whether this thread records history.
inline bool& grad_mode() { return recording_state.history; }

}  // namespace volta::graph
