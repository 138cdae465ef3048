// Numbers, points and waits of a device's lanes.
#include "backend/lanes.h"

#include <algorithm>
#include <utility>

namespace volta {

Lanes::Lanes(Backend& backend, int device, std::recursive_mutex& lock)
    : backend_(backend), device_(device), lock_(lock), has_lanes_(backend.has_lanes(device)) {}

const Lanes::Points::Entry* Lanes::Points::find(std::uint64_t number) const {
  const auto found = std::lower_bound(
      entries.begin(), entries.end(), number,
      [](const Entry& entry, std::uint64_t wanted) { return entry.number < wanted; });
  return found == entries.end() ? nullptr : &*found;
}

void Lanes::Points::add(std::uint64_t number, std::shared_ptr<const Point> point) {
  if (entries.size() == kPoints) entries.pop_front();
  entries.push_back({number, std::move(point)});
}

std::uint64_t Lanes::Points::update_finished() {
  for (const Entry& entry : entries) {
    if (entry.number <= finished) continue;
    if (!entry.point->has_passed()) break;
    finished = entry.number;
  }
  return finished;
}

ComputeTimes Lanes::finished() {
  const std::lock_guard guard(mutex_);
  ComputeTimes finished{};
  for (std::size_t lane = 0; lane < kComputeLanes; ++lane)
    finished[lane] = computed_[lane].update_finished();
  return finished;
}

Lanes::Run::Run(Lanes& lanes, std::size_t lane)
    : lanes_(lanes),
      lane_(lane),
      number_(lanes.latest(lane) + 1),
      several_((lanes.note_lane(lane), lanes.several())) {}

void Lanes::note_lane(std::size_t lane) {
  if (lane != 0) {
    beside_ = latest(0);
    if (several()) return;
    unnoted_until_.store(beside_, std::memory_order_release);
    several_.store(true, std::memory_order_release);
  } else if (several() && latest(0) - beside_ >= kWorkAlone) {
    beside_ = latest(0);  // if not now, not so soon again
    const ComputeTimes ended = finished();
    for (std::size_t other = 1; other < kComputeLanes; ++other) {
      if (ended[other] < latest(other)) return;
    }
    several_.store(false, std::memory_order_release);
  }
}

void Lanes::Run::reads(MemoryTimes& memory) {
  needs_.upload = std::max(needs_.upload, memory.upload());
  if (!several_) return;
  if (const Work work = memory.written(); work.lane != lane_)
    needs_.compute[work.lane] = std::max(needs_.compute[work.lane], work.number);
  memory.note_use(lane_, number_);
}

void Lanes::Run::writes(MemoryTimes& memory) {
  needs_.upload = std::max(needs_.upload, memory.upload());
  if (several_) {
    const LaneTimes used = lanes_.last_use(memory);
    for (std::size_t other = 0; other < kComputeLanes; ++other)
      needs_.compute[other] = std::max(needs_.compute[other], used.compute[other]);
  }
  memory.note_use(lane_, number_);
  memory.note_write({static_cast<std::uint32_t>(lane_), number_});
}

LaneTimes Lanes::last_use(const MemoryTimes& memory) const {
  LaneTimes times = memory.get();
  times.compute[0] =
      several() ? std::max(times.compute[0], unnoted_until_.load(std::memory_order_acquire))
                : latest();
  return times;
}

const Lanes::Points::Entry* Lanes::compute_entry(Work work) {
  if (work.lane == 0) points_until_ = latest() + kPointsAfterCopy;
  Points& computed = computed_[work.lane];
  if (work.number <= computed.finished) return nullptr;
  const Points::Entry* entry = computed.find(work.number);
  if (entry == nullptr) {
    // Read before the point is marked: all work up to it has been enqueued.
    const std::uint64_t enqueued = latest(work.lane);
    auto point = backend_.mark(device_, compute_lane(work.lane));
    if (point == nullptr) return nullptr;
    computed.add(enqueued, std::move(point));
    entry = &computed.entries.back();
  }
  if (!entry->point->has_passed()) return entry;
  computed.finished = std::max(computed.finished, entry->number);
  return nullptr;
}

const Lanes::Points::Entry* Lanes::upload_entry(std::uint64_t number) {
  if (number <= uploaded_.finished) return nullptr;
  const Points::Entry* entry = uploaded_.find(number);
  if (entry == nullptr) return nullptr;
  if (!entry->point->has_passed()) return entry;
  uploaded_.finished = std::max(uploaded_.finished, entry->number);
  return nullptr;
}

std::shared_ptr<const Point> Lanes::computed(Work work) {
  if (!has_lanes_) return nullptr;
  const std::lock_guard guard(mutex_);
  const Points::Entry* entry = compute_entry(work);
  return entry == nullptr ? nullptr : entry->point;
}

std::shared_ptr<const Point> Lanes::uploaded(std::uint64_t number) {
  const std::lock_guard guard(mutex_);
  const Points::Entry* entry = upload_entry(number);
  return entry == nullptr ? nullptr : entry->point;
}

void Lanes::make_room(std::size_t lane) {
  const std::uint64_t most = room_[lane].load(std::memory_order_relaxed), number = latest(lane);
  if (!several() || most == 0 || number < most) return;
  try {
    if (const auto point = computed({static_cast<std::uint32_t>(lane), number + 1 - most}))
      point->wait();
  } catch (...) {  // what is wrong shows when the work is enqueued
  }
}

void Lanes::wait_in(Lane lane, const LaneTimes& needs) {
  const std::lock_guard guard(mutex_);
  LaneTimes& waited = waited_[number_of(lane)];
  for (std::uint32_t other = 0; other < kComputeLanes; ++other) {
    if (compute_lane(other) == lane || needs.compute[other] <= waited.compute[other]) continue;
    if (const Points::Entry* entry = compute_entry({other, needs.compute[other]})) {
      backend_.hold(device_, lane, *entry->point);
      waited.compute[other] = entry->number;
    }
  }
  if (lane != Lane::Upload && needs.upload > waited.upload) {
    if (const Points::Entry* entry = upload_entry(needs.upload)) {
      backend_.hold(device_, lane, *entry->point);
      waited.upload = entry->number;
    }
  }
}

void Lanes::end_compute(std::size_t lane) noexcept {
  const std::uint64_t number = latest(lane) + 1;
  latest_[lane].store(number, std::memory_order_release);
  if (!has_lanes_) return;
  try {
    const std::lock_guard guard(mutex_);
    if (!several() && number > points_until_) return;
    if (auto point = backend_.mark(device_, compute_lane(lane)))
      computed_[lane].add(number, std::move(point));
  } catch (...) {  // who waits for the work marks a point then, and is told why that fails
  }
}

std::uint64_t Lanes::mark_upload() {
  const std::lock_guard guard(mutex_);
  auto point = backend_.mark(device_, Lane::Upload);
  const std::uint64_t number = ++latest_upload_;
  if (point != nullptr) uploaded_.add(number, std::move(point));
  return number;
}

// Where a copy fails, parts of it may be under way from or to memory that its owners give back now,
// with no number to wait for.
template <class Copy>
void Lanes::or_drained(const Copy& copy) {
  try {
    copy();
  } catch (...) {
    try {
      backend_.synchronize(device_);
    } catch (...) {  // a lost device copies nothing
    }
    throw;
  }
}

void Lanes::upload(Address destination, MemoryTimes& times, const void* source, std::size_t bytes) {
  // Whoever has the lock may be waiting for the device: small ones go aside then, too.
  std::unique_lock guard(lock_, std::defer_lock);
  if (!goes_aside(bytes) && (!has_lanes_ || guard.try_lock())) {
    if (!guard.owns_lock()) guard.lock();
    Run run(*this, 0);
    run.writes(times);
    return compute(run, [&] { backend_.upload(device_, destination, source, bytes); });
  }
  {
    const std::lock_guard guard(mutex_);
    points_until_ = latest() + kPointsAfterCopy;
  }
  wait_in(Lane::Upload, times.get());
  or_drained([&] {
    backend_.upload_aside(device_, destination, source, bytes);
    times.note_upload(mark_upload());
    times.note_write({});
  });
}

namespace {
// What reading a value waits for.
LaneTimes times_of_value(const MemoryTimes& memory) {
  LaneTimes times;
  const Work work = memory.written();
  times.compute[work.lane] = work.number;
  times.upload = memory.upload();
  return times;
}
}  // namespace

void Lanes::download(void* destination, Address source, const MemoryTimes& times,
                     std::size_t bytes) {
  if (goes_aside(bytes)) {
    // Those of a lane follow each other: one that waits for a stream's work must not keep another
    // stream's from its values.
    if (several()) {
      if (backend_.take_sent(device_, destination, source, bytes)) return;
      if (const auto written = computed(times.written())) written->wait();
    }
    wait_in(Lane::Read, times_of_value(times));
    return or_drained([&] { backend_.download_aside(device_, destination, source, bytes); });
  }
  const std::lock_guard guard(lock_);
  wait_in(Lane::Compute, times_of_value(times));
  backend_.download(device_, destination, source, bytes);
}

void Lanes::copy(Address destination, MemoryTimes& destination_times, Address source,
                 MemoryTimes& source_times, std::size_t bytes) {
  const std::lock_guard guard(lock_);
  Run run(*this, 0);
  run.reads(source_times);
  source_times.note_use(0, run.number());  // whoever has it may upload to it next
  run.writes(destination_times);
  compute(run, [&] { backend_.copy(device_, destination, source, bytes); });
}

std::shared_ptr<const Point> Lanes::begin_download(void* destination, Address source,
                                                   const MemoryTimes& times, std::size_t bytes) {
  if (!has_lanes_) {
    const std::lock_guard guard(lock_);
    backend_.download(device_, destination, source, bytes);
    return nullptr;
  }
  wait_in(Lane::Download, times_of_value(times));
  std::shared_ptr<const Point> arrived;
  or_drained([&] {
    backend_.begin_download(device_, destination, source, bytes);
    arrived = backend_.mark(device_, Lane::Download);
  });
  return arrived;
}

}  // namespace volta
