// The state of a recording thread. Every recorded node reads it, so it is one thread-local struct.
#pragma once

#include <cstdint>

#include "platform/thread_local.h"
#include "volta/detail/scope.h"
#include "volta/dtype.h"
#include "volta/source_location.h"

namespace volta::graph {

enum class OpId : std::uint16_t;
class RecordingObserver;
class TapeCollector;
struct CastCache;

// Whether operations are placed (graph/record/placing.h) or run where their tensors are.
enum class Placing : std::uint8_t { by_default, no, yes };

struct RecordingState {
  bool history = true;
  Placing placing = Placing::by_default;
  Placing falls_back = Placing::by_default;  // CPU takes over when a device has no memory
  int stream = 0;                            // set by StreamScope
  DType autocast = DType::f32;               // dtype of products (graph/record/autocast.h)
  std::uint32_t epoch = 0;  // number of the recomputation that is recording (Node::epoch), or 0
  RecordingObserver* observer = nullptr;   // graph/record/observer.h
  TapeCollector* collector = nullptr;      // the innermost one (graph/record/tape_extras.h)
  CastCache* casts = nullptr;              // conversions made by the Autocast scopes, or null
  const SourceLocation* caller = nullptr;  // where the user called the layer that is recording
  const OpId* rule = nullptr;  // the operation whose gradient rule is recording, or null
  // The innermost open scopes.
  Scope<bool>* history_scope = nullptr;
  Scope<DType>* autocast_scope = nullptr;
  Scope<int>* stream_scope = nullptr;
};
VOLTA_INITIAL_EXEC extern constinit thread_local RecordingState recording_state;

// Whether this thread records history.
inline bool& grad_mode() { return recording_state.history; }

// Whether the source location is in the library itself, for example in a layer.
bool is_own(SourceLocation place);
// The source location to report: the user's call of the layer if the library's own code recorded
// the operation.
inline SourceLocation reported_place(SourceLocation place) {
  if (recording_state.caller == nullptr) [[likely]]
    return place;
  return is_own(place) ? *recording_state.caller : place;
}

}  // namespace volta::graph
