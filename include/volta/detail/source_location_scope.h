// The source location that is reported for operations recorded inside layers. Not part of the API.
#pragma once

#include "volta/export.h"
#include "volta/source_location.h"

namespace volta {

// While it lives, operations that Volta's own source records in this thread, for example in a
// layer's forward pass, are reported with the location `place`. A location inside Volta's own
// source is ignored, and the enclosing scope applies.
class VOLTA_API SourceLocationScope {
 public:
  explicit SourceLocationScope(SourceLocation place);
  SourceLocationScope(const SourceLocationScope&) = delete;
  SourceLocationScope& operator=(const SourceLocationScope&) = delete;
  ~SourceLocationScope();

 private:
  const SourceLocation place_;
  const SourceLocation* const outer_;
};

}  // namespace volta
