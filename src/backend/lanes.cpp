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

std::uint64_t Lanes::finished() {
  const std::lock_guard guard(mutex_);
  return computed_.update_finished();
}

const Lanes::Points::Entry* Lanes::compute_entry(std::uint64_t number) {
  points_until_ = latest() + kPointsAfterCopy;
  if (number <= computed_.finished) return nullptr;
  const Points::Entry* entry = computed_.find(number);
  if (entry == nullptr) {
    // Read before the point is marked: all work up to it has been enqueued.
    const std::uint64_t enqueued = latest();
    auto point = backend_.mark(device_, Lane::Compute);
    if (point == nullptr) return nullptr;
    computed_.add(enqueued, std::move(point));
    entry = &computed_.entries.back();
  }
  if (!entry->point->has_passed()) return entry;
  computed_.finished = std::max(computed_.finished, entry->number);
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

std::shared_ptr<const Point> Lanes::computed(std::uint64_t number) {
  if (!has_lanes_) return nullptr;
  const std::lock_guard guard(mutex_);
  const Points::Entry* entry = compute_entry(number);
  return entry == nullptr ? nullptr : entry->point;
}

std::shared_ptr<const Point> Lanes::uploaded(std::uint64_t number) {
  const std::lock_guard guard(mutex_);
  const Points::Entry* entry = upload_entry(number);
  return entry == nullptr ? nullptr : entry->point;
}

void Lanes::wait_in(Lane lane, LaneTimes times) {
  const std::lock_guard guard(mutex_);
  LaneTimes& waited = waited_[static_cast<std::size_t>(lane)];
  if (lane != Lane::Compute && times.compute > waited.compute) {
    if (const Points::Entry* entry = compute_entry(times.compute)) {
      backend_.hold(device_, lane, *entry->point);
      waited.compute = entry->number;
    }
  }
  if (lane != Lane::Upload && times.upload > waited.upload) {
    if (const Points::Entry* entry = upload_entry(times.upload)) {
      backend_.hold(device_, lane, *entry->point);
      waited.upload = entry->number;
    }
  }
}

void Lanes::begin_compute(std::uint64_t uploads) {
  if (uploads > 0) wait_in(Lane::Compute, {.upload = uploads});
}

void Lanes::end_compute() noexcept {
  const std::uint64_t number = latest() + 1;
  latest_.store(number, std::memory_order_release);
  if (!has_lanes_) return;
  try {
    const std::lock_guard guard(mutex_);
    if (number > points_until_) return;
    if (auto point = backend_.mark(device_, Lane::Compute)) computed_.add(number, std::move(point));
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

void Lanes::upload(Address destination, LaneTimes& times, const void* source, std::size_t bytes) {
  // Whoever has the lock may be waiting for the device: small ones go aside then, too.
  std::unique_lock guard(lock_, std::defer_lock);
  if (!goes_aside(bytes) && (!has_lanes_ || guard.try_lock())) {
    times.compute =
        compute(times.upload, [&] { backend_.upload(device_, destination, source, bytes); });
    return;
  }
  {
    const std::lock_guard guard(mutex_);
    points_until_ = latest() + kPointsAfterCopy;
  }
  wait_in(Lane::Upload, times);
  or_drained([&] {
    backend_.upload_aside(device_, destination, source, bytes);
    times.upload = mark_upload();
  });
}

void Lanes::download(void* destination, Address source, LaneTimes times, std::size_t bytes) {
  if (goes_aside(bytes)) {
    wait_in(Lane::Download, times);
    return or_drained([&] { backend_.download_aside(device_, destination, source, bytes); });
  }
  const std::lock_guard guard(lock_);
  begin_compute(times.upload);
  backend_.download(device_, destination, source, bytes);
}

void Lanes::copy(Address destination, LaneTimes& destination_times, Address source,
                 LaneTimes& source_times, std::size_t bytes) {
  const std::uint64_t number = compute(std::max(destination_times.upload, source_times.upload),
                                       [&] { backend_.copy(device_, destination, source, bytes); });
  destination_times.compute = source_times.compute = number;
}

std::shared_ptr<const Point> Lanes::begin_download(void* destination, Address source,
                                                   LaneTimes times, std::size_t bytes) {
  if (!has_lanes_) {
    const std::lock_guard guard(lock_);
    backend_.download(device_, destination, source, bytes);
    return nullptr;
  }
  wait_in(Lane::Download, times);
  std::shared_ptr<const Point> arrived;
  or_drained([&] {
    backend_.begin_download(device_, destination, source, bytes);
    arrived = backend_.mark(device_, Lane::Download);
  });
  return arrived;
}

}  // namespace volta
