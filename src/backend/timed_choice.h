// Which of several ways to do one thing is the fastest on this machine: timed once, remembered on
// disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "volta/export.h"

namespace volta {

// Something that can be done in several ways. Names tell the ways apart, from process to process.
struct TimedThing {
  std::string machine;  // hardware and library versions: what was timed elsewhere does not count
  std::string what;     // with all its sizes
  std::string device = {};  // the hardware's name, under which choices are shipped; empty: none are
  std::string label = {};   // for people
};

// Where a known way comes from.
enum class WaySource : std::uint8_t { Process, Adopted, Disk, Shipped };

// The number of the way remembered for the thing, if it is among the names. Not where VOLTA_TUNE
// says off.
VOLTA_BACKEND_API std::optional<std::size_t> remembered_way(const TimedThing& thing,
                                                            std::span<const std::string> names,
                                                            WaySource* source = nullptr);

// The fastest of `count` ways. `seconds` does the thing in one way and tells how long that takes,
// or nothing where it cannot be done so. The first two are always tried, the others while the tries
// together, with all that they need, took less than `budget` seconds. Nothing where no way works.
// Where VOLTA_TUNE says off or read: the first that works.
VOLTA_BACKEND_API std::optional<std::size_t> fastest_way(
    std::size_t count, const std::function<std::optional<double>(std::size_t)>& seconds,
    double budget);

// For this process and later ones. What was chosen among some of the ways only, because memory was
// short, is not to be remembered. Where VOLTA_TUNE says off or read: for this process alone.
VOLTA_BACKEND_API void remember_way(const TimedThing& thing, const std::string& name);
// For this process, and for those that go on from its checkpoints.
VOLTA_BACKEND_API void use_way(const TimedThing& thing, const std::string& name);

// What this process went by so far, for a later one that is to compute the same bits: the names of
// ways under what stands for the things.
VOLTA_BACKEND_API std::map<std::string, std::string> chosen_ways();
// Goes by these from now on, whatever was timed on this machine; what was prepared before stays as
// it is.
VOLTA_BACKEND_API void adopt_ways(const std::map<std::string, std::string>& ways);

}  // namespace volta
