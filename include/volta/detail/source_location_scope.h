// Whose line is told of what layers record.
#pragma once

#include "volta/export.h"
#include "volta/place.h"

namespace volta {

// While one lives, what Volta's own source records in this thread, a layer's forward pass for
// instance, counts as recorded at `place`. A place that is in Volta's own source changes nothing:
// the one around it holds.
class VOLTA_API PlaceScope {
 public:
  explicit PlaceScope(Place place);
  PlaceScope(const PlaceScope&) = delete;
  PlaceScope& operator=(const PlaceScope&) = delete;
  ~PlaceScope();

 private:
  const Place place_;
  const Place* const outer_;
};

}  // namespace volta
