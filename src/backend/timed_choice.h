// Which of several ways to do one thing is the fastest on this machine: timed once, remembered on
// disk.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "volta/export.h"

namespace volta {

// Something that can be done in several ways. Names tell the ways apart, from process to process.
struct TimedThing {
  std::string machine;  // hardware and library versions: what was timed elsewhere does not count
  std::string what;     // with all its sizes
};

// The number of the way remembered for the thing, if it is among the names.
VOLTA_BACKEND_API std::optional<std::size_t> remembered_way(const TimedThing& thing,
                                                            std::span<const std::string> names);

// The fastest way. `seconds` does the thing in one way and tells how long that took, or nothing
// where it cannot be done so. The first two are always tried, the others while the tries together
// took less than `budget` seconds. What was chosen is remembered before it is returned; nothing
// where no way works.
VOLTA_BACKEND_API std::optional<std::size_t> fastest_way(
    const TimedThing& thing, std::span<const std::string> names,
    const std::function<std::optional<double>(std::size_t)>& seconds, double budget);

}  // namespace volta
