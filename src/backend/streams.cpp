// Numbers, events and waits of a device's streams.
#include "backend/streams.h"

#include <algorithm>
#include <utility>

namespace volta {

Streams::Streams(Backend& backend, int device, std::recursive_mutex& lock)
    : backend_(backend), device_(device), lock_(lock), has_streams_(backend.has_streams(device)) {}

const Streams::Events::Entry* Streams::Events::find(std::uint64_t number) const {
  const auto found = std::lower_bound(
      entries.begin(), entries.end(), number,
      [](const Entry& entry, std::uint64_t wanted) { return entry.number < wanted; });
  return found == entries.end() ? nullptr : &*found;
}

void Streams::Events::add(std::uint64_t number, std::shared_ptr<const StreamEvent> event) {
  if (entries.size() == kEvents) entries.pop_front();
  entries.push_back({number, std::move(event)});
}

std::uint64_t Streams::Events::update_finished() {
  for (const Entry& entry : entries) {
    if (entry.number <= finished) continue;
    if (!entry.event->has_passed()) break;
    finished = entry.number;
  }
  return finished;
}

ComputeTimes Streams::finished() {
  const std::lock_guard guard(mutex_);
  ComputeTimes finished{};
  for (std::size_t stream = 0; stream < kComputeStreams; ++stream)
    finished[stream] = computed_[stream].update_finished();
  return finished;
}

Streams::Run::Run(Streams& streams, std::size_t stream)
    : streams_(streams),
      stream_(stream),
      number_(streams.latest(stream) + 1),
      several_((streams.note_stream(stream), streams.several())) {}

void Streams::note_stream(std::size_t stream) {
  if (stream != 0) {
    beside_ = latest(0);
    if (several()) return;
    unnoted_until_.store(beside_, std::memory_order_release);
    several_.store(true, std::memory_order_release);
  } else if (several() && latest(0) - beside_ >= kWorkAlone) {
    beside_ = latest(0);  // checks again only after another kWorkAlone
    const ComputeTimes ended = finished();
    for (std::size_t other = 1; other < kComputeStreams; ++other) {
      if (ended[other] < latest(other)) return;
    }
    several_.store(false, std::memory_order_release);
  }
}

void Streams::Run::reads(MemoryTimes& memory) {
  needs_.upload = std::max(needs_.upload, memory.upload());
  if (!several_) return;
  if (const StreamWork work = memory.written(); work.stream != stream_)
    needs_.compute[work.stream] = std::max(needs_.compute[work.stream], work.number);
  memory.note_use(stream_, number_);
}

void Streams::Run::writes(MemoryTimes& memory) {
  needs_.upload = std::max(needs_.upload, memory.upload());
  if (several_) {
    const StreamTimes used = streams_.last_use(memory);
    for (std::size_t other = 0; other < kComputeStreams; ++other)
      needs_.compute[other] = std::max(needs_.compute[other], used.compute[other]);
  }
  memory.note_use(stream_, number_);
  memory.note_write({static_cast<std::uint32_t>(stream_), number_});
}

StreamTimes Streams::last_use(const MemoryTimes& memory) const {
  StreamTimes times = memory.get();
  times.compute[0] =
      several() ? std::max(times.compute[0], unnoted_until_.load(std::memory_order_acquire))
                : latest();
  return times;
}

const Streams::Events::Entry* Streams::compute_entry(StreamWork work) {
  if (work.stream == 0) events_until_ = latest() + kEventsAfterCopy;
  Events& computed = computed_[work.stream];
  if (work.number <= computed.finished) return nullptr;
  const Events::Entry* entry = computed.find(work.number);
  if (entry == nullptr) {
    // Read before the event is recorded, so that all work up to this number has been enqueued.
    const std::uint64_t enqueued = latest(work.stream);
    auto event = backend_.record_event(device_, compute_stream(work.stream));
    if (event == nullptr) return nullptr;
    computed.add(enqueued, std::move(event));
    entry = &computed.entries.back();
  }
  if (!entry->event->has_passed()) return entry;
  computed.finished = std::max(computed.finished, entry->number);
  return nullptr;
}

const Streams::Events::Entry* Streams::upload_entry(std::uint64_t number) {
  if (number <= uploaded_.finished) return nullptr;
  const Events::Entry* entry = uploaded_.find(number);
  if (entry == nullptr) return nullptr;
  if (!entry->event->has_passed()) return entry;
  uploaded_.finished = std::max(uploaded_.finished, entry->number);
  return nullptr;
}

std::shared_ptr<const StreamEvent> Streams::computed(StreamWork work) {
  if (!has_streams_) return nullptr;
  const std::lock_guard guard(mutex_);
  const Events::Entry* entry = compute_entry(work);
  return entry == nullptr ? nullptr : entry->event;
}

std::shared_ptr<const StreamEvent> Streams::uploaded(std::uint64_t number) {
  const std::lock_guard guard(mutex_);
  const Events::Entry* entry = upload_entry(number);
  return entry == nullptr ? nullptr : entry->event;
}

void Streams::make_room(std::size_t stream) {
  const std::uint64_t most = room_[stream].load(std::memory_order_relaxed), number = latest(stream);
  if (!several() || most == 0 || number < most) return;
  try {
    if (const auto event = computed({static_cast<std::uint32_t>(stream), number + 1 - most}))
      event->wait();
  } catch (...) {  // the error shows again when the work is enqueued
  }
}

void Streams::wait_in(Stream stream, const StreamTimes& needs) {
  const std::lock_guard guard(mutex_);
  StreamTimes& waited = waited_[number_of(stream)];
  for (std::uint32_t other = 0; other < kComputeStreams; ++other) {
    if (compute_stream(other) == stream || needs.compute[other] <= waited.compute[other]) continue;
    if (const Events::Entry* entry = compute_entry({other, needs.compute[other]})) {
      backend_.wait_for_event(device_, stream, *entry->event);
      waited.compute[other] = entry->number;
    }
  }
  if (stream != Stream::Upload && needs.upload > waited.upload) {
    if (const Events::Entry* entry = upload_entry(needs.upload)) {
      backend_.wait_for_event(device_, stream, *entry->event);
      waited.upload = entry->number;
    }
  }
}

void Streams::end_compute(std::size_t stream) noexcept {
  const std::uint64_t number = latest(stream) + 1;
  latest_[stream].store(number, std::memory_order_release);
  if (!has_streams_) return;
  try {
    const std::lock_guard guard(mutex_);
    if (!several() && number > events_until_) return;
    if (auto event = backend_.record_event(device_, compute_stream(stream)))
      computed_[stream].add(number, std::move(event));
  } catch (...) {  // a later wait for the work records an event and gets the error
  }
}

std::uint64_t Streams::record_upload() {
  const std::lock_guard guard(mutex_);
  auto event = backend_.record_event(device_, Stream::Upload);
  const std::uint64_t number = ++latest_upload_;
  if (event != nullptr) uploaded_.add(number, std::move(event));
  return number;
}

// Waits for the device if a copy fails: parts of the copy may still be in flight, and the owners of
// the memory give it back now, with no number to wait for.
template <class Copy>
void Streams::or_drained(const Copy& copy) {
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

void Streams::upload(Address destination, MemoryTimes& times, const void* source,
                     std::size_t bytes) {
  // Small copies also use the copy stream if another thread holds the lock: it may be waiting for
  // the device.
  std::unique_lock guard(lock_, std::defer_lock);
  if (!uses_copy_stream(bytes) && (!has_streams_ || guard.try_lock())) {
    if (!guard.owns_lock()) guard.lock();
    Run run(*this, 0);
    run.writes(times);
    return compute(run, [&] { backend_.upload(device_, destination, source, bytes); });
  }
  {
    const std::lock_guard guard(mutex_);
    events_until_ = latest() + kEventsAfterCopy;
  }
  wait_in(Stream::Upload, times.get());
  or_drained([&] {
    backend_.upload_in_copy_stream(device_, destination, source, bytes);
    times.note_upload(record_upload());
    times.note_write({});
  });
}

namespace {
// The work that a reader of the value waits for.
StreamTimes times_of_value(const MemoryTimes& memory) {
  StreamTimes times;
  const StreamWork work = memory.written();
  times.compute[work.stream] = work.number;
  times.upload = memory.upload();
  return times;
}
}  // namespace

void Streams::download(void* destination, Address source, const MemoryTimes& times,
                       std::size_t bytes) {
  if (uses_copy_stream(bytes)) {
    // Downloads in a stream run in order: one that waits for a stream's work must not delay the
    // values of another stream. So the host waits for the work before the download is enqueued.
    if (several()) {
      if (backend_.take_sent(device_, destination, source, bytes)) return;
      if (const auto written = computed(times.written())) written->wait();
    }
    wait_in(Stream::Read, times_of_value(times));
    return or_drained(
        [&] { backend_.download_in_copy_stream(device_, destination, source, bytes); });
  }
  const std::lock_guard guard(lock_);
  wait_in(Stream::Compute, times_of_value(times));
  backend_.download(device_, destination, source, bytes);
}

void Streams::copy(Address destination, MemoryTimes& destination_times, Address source,
                   MemoryTimes& source_times, std::size_t bytes) {
  const std::lock_guard guard(lock_);
  Run run(*this, 0);
  run.reads(source_times);
  source_times.note_use(0, run.number());  // the next upload to the source waits for this copy
  run.writes(destination_times);
  compute(run, [&] { backend_.copy(device_, destination, source, bytes); });
}

std::shared_ptr<const StreamEvent> Streams::begin_download(void* destination, Address source,
                                                           const MemoryTimes& times,
                                                           std::size_t bytes) {
  if (!has_streams_) {
    const std::lock_guard guard(lock_);
    backend_.download(device_, destination, source, bytes);
    return nullptr;
  }
  wait_in(Stream::Download, times_of_value(times));
  std::shared_ptr<const StreamEvent> arrived;
  or_drained([&] {
    backend_.begin_download(device_, destination, source, bytes);
    arrived = backend_.record_event(device_, Stream::Download);
  });
  return arrived;
}

}  // namespace volta
