// How a thread records: what is asked for every node, in one place.
#pragma once

#include <cstdint>

#include "platform/thread_local.h"
#include "volta/dtype.h"
#include "volta/place.h"
#include "volta/scope.h"

namespace volta::graph {

enum class OpId : std::uint16_t;
class RecordingObserver;
class TapeCollector;
struct CastCache;

// Whether operations are placed (graph/placement.h) instead of run where their tensors are.
enum class Placing : std::uint8_t { by_default, no, yes };

struct RecordingState {
  bool history = true;
  Placing placing = Placing::by_default;
  Placing falls_back = Placing::by_default;  // to the CPU, where a device has no memory
  int stream = 0;                            // StreamScope
  DType autocast = DType::f32;               // what products are computed in (graph/autocast.h)
  std::uint32_t epoch = 0;                   // of stretches computed again (Node::epoch)
  RecordingObserver* observer = nullptr;     // graph/observer.h
  TapeCollector* collector = nullptr;        // graph/tape_extras.h: the innermost
  CastCache* casts = nullptr;                // parameters that the scopes converted, if any; theirs
  const Place* caller = nullptr;             // where the user called the layer that records
  const OpId* rule = nullptr;                // whose gradient rule records, if one does
  // The innermost ones that are open.
  Scope<bool>* history_scope = nullptr;
  Scope<DType>* autocast_scope = nullptr;
  Scope<int>* stream_scope = nullptr;
};
VOLTA_INITIAL_EXEC extern constinit thread_local RecordingState recording_state;

// Whether this thread records history.
inline bool& grad_mode() { return recording_state.history; }

// Whether a place is in the library's own source, a layer's for instance.
bool is_own(Place place);
// What to tell the user: where the layer was called, if the library's own source recorded.
inline Place told_place(Place place) {
  if (recording_state.caller == nullptr) [[likely]]
    return place;
  return is_own(place) ? *recording_state.caller : place;
}

}  // namespace volta::graph
