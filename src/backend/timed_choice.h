// Finds the fastest of several candidates (algorithms, schedules) on this machine: timed once,
// remembered on disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "volta/detail/timed_choices.h"
#include "volta/export.h"

namespace volta {

// The key of a choice among several candidates. The names of candidates are the same in every
// process.
struct ChoiceKey {
  // Hardware and library versions; timings from another machine are ignored.
  std::string machine;
  std::string what;  // the operation with all its sizes
  // The name of the hardware, under which choices are shipped; empty if none are.
  std::string device = {};
  std::string label = {};  // for people
};

// Where a known choice comes from.
enum class CandidateSource : std::uint8_t { Process, Adopted, Disk, Shipped };

// Returns the index in `names` of the candidate remembered for the key, if there is one. Returns
// nothing under VOLTA_TUNE=off.
VOLTA_BACKEND_API std::optional<std::size_t> remembered_candidate(
    const ChoiceKey& choice, std::span<const std::string> names, CandidateSource* source = nullptr);

// Whether this process has chosen a candidate for the key.
VOLTA_BACKEND_API bool is_chosen(const ChoiceKey& choice);

// The fastest of `count` candidates. `seconds` runs one candidate and returns the time it took, or
// nothing if it does not work. The first two are always tried, further ones until all tries
// together have taken `budget` seconds, preparation included. Returns nothing if no candidate
// works. Under VOLTA_TUNE=off or read, returns the first that works.
VOLTA_BACKEND_API std::optional<std::size_t> fastest_candidate(
    std::size_t count, const std::function<std::optional<double>(std::size_t)>& seconds,
    double budget);

// Remembers the choice for this process and later ones; under VOLTA_TUNE=off or read, for this
// process only. A choice made among fewer candidates because memory was short must not be
// remembered.
VOLTA_BACKEND_API void remember_candidate(const ChoiceKey& choice, const std::string& name);
// Remembers the choice for this process and for those that resume from its checkpoints.
VOLTA_BACKEND_API void use_candidate(const ChoiceKey& choice, const std::string& name);

}  // namespace volta
