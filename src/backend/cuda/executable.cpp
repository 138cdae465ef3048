// Eager runs, captures and replays of one plan.
#include "backend/cuda/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <utility>

#include "backend/cuda/slot_copies.h"
#include "core/counting.h"
#include "volta/error.h"
#include "volta/log.h"

namespace volta::cuda {
namespace {

// The number of runs before the first capture: a plan that runs once or twice is not worth one.
constexpr std::uint64_t kEagerRuns = 2;
// Plans that touch at most this many bytes take hardly longer than waiting for an event.
constexpr std::uint64_t kSmallBytes = std::uint64_t{64} << 20;
// A launch costs about as much time as copying this many bytes into or out of a slot.
constexpr std::uint64_t kBytesPerLaunch = std::uint64_t{4} << 20;
constexpr std::uint64_t kSmallGroup = 4;
// Longer plans, such as loops of thousands of iterations, run step by step: a graph takes about a
// kilobyte of host memory for each launch.
constexpr std::uint64_t kMostGraphNodes = 32768;
// While a profiler records, one replay in this many is timed step by step.
constexpr std::uint64_t kReplaysPerSample = 32;

std::uint64_t bytes_of(const plan::PlanSteps& steps) {
  std::uint64_t bytes = steps.arena_bytes;
  for (const std::uint64_t leaf : steps.leaf_bytes) bytes += leaf;
  for (const std::uint64_t output : steps.output_bytes) bytes += output;
  return bytes;
}

}  // namespace

CudaExecutable::CudaExecutable(std::shared_ptr<Device> device, const plan::PlanSteps& steps)
    : device_(std::move(device)),
      context_(device_->context()),
      stream_number_(steps.stream),
      stream_((device_->open_stream(stream_number_),
               device_->stream_of(compute_stream(stream_number_)))),
      leaf_bytes_(steps.leaf_bytes),
      output_bytes_(steps.output_bytes),
      arena_bytes_(steps.arena_bytes),
      bytes_(bytes_of(steps)),
      plan_(steps.id),
      steps_(context_, device_->modules(), device_->matmuls(), device_->cudnn(), steps),
      group_runs_(bytes_ <= kSmallBytes ? kSmallGroup : 1),
      finished_{Event(context_), Event(context_)},
      arg_words_(steps.arg_words),
      arg_block_count_(2 * group_runs_ + 1),
      table_(leaf_bytes_, output_bytes_, arena_bytes_) {
  if (arg_words_ > 0) {
    args_ = device_->small_memory().take(arg_words_ * sizeof(std::uint64_t));
    arg_blocks_ =
        device_->small_pinned().take(arg_block_count_ * arg_words_ * sizeof(std::uint64_t));
  }
  if (steps_.checks_indices()) {
    error_ = device_->small_pinned().take(sizeof(kernel::ErrorRecord));
    *static_cast<kernel::ErrorRecord*>(error_.host()) = {};
  }
  if (steps_.table_words() > 0) {
    eager_tables_ = device_->small_memory().take(steps_.table_words() * sizeof(std::uint64_t));
  }
  scalars_.resize(output_bytes_.size());
  for (std::size_t i = 0; i < output_bytes_.size(); ++i) {
    if (output_bytes_[i] == 0 || output_bytes_[i] > kMaxScalarBytes) continue;
    scalars_[i] = std::make_shared<ScalarOutput>();
    device_->modules().own_function(readback_kernel());  // loaded before any capture
  }
  under_way = static_cast<std::uint32_t>(2 * group_runs_);
  measure();
  device_->timeline().add(this);
}

void CudaExecutable::measure() {
  // The bytes that the driver allocates per node of an instantiated graph, on the host and on the
  // device.
  constexpr std::uint64_t kHostNode = 4096, kDeviceNode = 1024;
  constexpr std::uint64_t kPage = 4096;  // pinned memory is given in pages
  constexpr std::uint64_t kStep = 512;   // a prepared step
  const std::uint64_t words = sizeof(std::uint64_t);
  const std::uint64_t table = steps_.table_words() * words;
  held = {.host = sizeof(*this) + steps_.size() * kStep, .device = arg_words_ * words + table};
  if (arg_words_ > 0) held.host += (arg_block_count_ * arg_words_ * words / kPage + 1) * kPage;
  if (error_) held.host += kPage;
  if (slots_) held.device += table_.slot_bytes();
  for (const Variant& variant : variants_) {
    const std::uint64_t nodes = variant.launches + variant.library_calls;
    held.host += nodes * kHostNode;
    held.device += nodes * kDeviceNode + table;
  }
}

CudaExecutable::~CudaExecutable() {
  device_->timeline().remove(this);
  const ContextScope scope(context_, std::nothrow);
  // The current group has no event yet.
  context_.driver().cuStreamSynchronize(stream_);
  try {
    tell_replays();
  } catch (...) {  // the profile lacks these replays
  }
}

void CudaExecutable::run(std::span<const Address> leaves, std::span<const Address> outputs,
                         Address arena, std::span<const std::uint64_t> args) {
  context_.ensure_alive();
  const std::lock_guard lock(mutex_);
  const ContextScope scope(context_);
  // At most two groups are in flight: this run's and the previous one.
  const Event& finished = finished_[runs_ / group_runs_ % finished_.size()];
  if (runs_ % group_runs_ == 0) finished.wait();

  const std::lock_guard submission(device_->submission());
  set_addresses(leaves, outputs, arena);
  send_args(args);
  VariantTable::Choice choice{VariantTable::Action::Eager};
  if (runs_ >= kEagerRuns && !replay_off_ && !gains_nothing() && !is_too_long())
    choice = table_.choose(addresses_);
  if (choice.action == VariantTable::Action::Capture &&
      (is_costly_to_slot() || !capture(choice.variant))) {
    choice.action = VariantTable::Action::Eager;
  }
  if (choice.action == VariantTable::Action::Eager) {
    run_eagerly();
  } else {
    replay(variants_[choice.variant]);
  }
  if (++runs_ % group_runs_ == 0) finished.record(stream_);
}

std::optional<kernel::ErrorRecord> CudaExecutable::take_error() {
  if (!error_) return std::nullopt;
  context_.ensure_alive();
  auto& record = *static_cast<kernel::ErrorRecord*>(error_.host());
  if (std::atomic_ref(record.claimed).load(std::memory_order_acquire) == 0) return std::nullopt;
  // The kernel that claimed the record may still be writing it: reading a scalar from its host copy
  // does not wait for all work.
  device_->synchronize();
  return std::exchange(record, {});
}

bool CudaExecutable::is_costly_to_slot() {
  std::uint64_t copied = 0;
  for (std::size_t i = 0; i < table_.arena(); ++i) {
    if (table_.is_volatile(i))
      copied += i < leaf_bytes_.size() ? leaf_bytes_[i] : output_bytes_[i - leaf_bytes_.size()];
  }
  // If the plan is a single launch, the copy itself costs as much.
  const std::uint64_t launches = is_single() ? 0 : steps_.launches() + steps_.library_calls();
  if (copied <= kBytesPerLaunch * launches) return false;
  context_.synchronize(stream_);  // earlier variants may still be running
  variants_.clear();
  slots_ = {};
  measure();
  return replay_off_ = true;
}

bool CudaExecutable::gains_nothing() const { return bytes_ > kBytesPerLaunch && is_single(); }

bool CudaExecutable::is_too_long() const {
  return steps_.launches() + steps_.library_calls() > kMostGraphNodes;
}

bool CudaExecutable::is_single() const {
  // A scalar that is read back adds another launch, which copies it to the host.
  return steps_.launches() + steps_.library_calls() == 1 &&
         std::none_of(scalars_.begin(), scalars_.end(),
                      [](const auto& scalar) { return scalar != nullptr && scalar->observed; });
}

void CudaExecutable::set_addresses(std::span<const Address> leaves,
                                   std::span<const Address> outputs, Address arena) {
  if (leaves.size() != leaf_bytes_.size() || outputs.size() != output_bytes_.size()) {
    throw BackendError(fmt::format("{}: a plan of {} leaves and {} outputs was given {} and {}",
                                   context_.name(), leaf_bytes_.size(), output_bytes_.size(),
                                   leaves.size(), outputs.size()));
  }
  const auto add = [&](const Address& address) {
    addresses_.push_back(reinterpret_cast<std::uintptr_t>(address.base) + address.offset);
  };
  addresses_.clear();
  for (const Address& leaf : leaves) add(leaf);
  for (const Address& output : outputs) add(output);
  add(arena);
}

void CudaExecutable::send_args(std::span<const std::uint64_t> args) {
  if (args.size() < arg_words_) {
    throw BackendError(fmt::format("{}: a plan with {} argument words was given {}",
                                   context_.name(), arg_words_, args.size()));
  }
  args = args.first(arg_words_);
  if (std::equal(args.begin(), args.end(), last_args_.begin(), last_args_.end())) return;
  const std::size_t bytes = arg_words_ * sizeof(std::uint64_t);
  char* block = static_cast<char*>(arg_blocks_.host()) + next_arg_block_ * bytes;
  std::memcpy(block, args.data(), bytes);
  last_args_.clear();
  context_.check(context_.driver().cuMemcpyHtoDAsync(args_.device(), block, bytes, stream_),
                 "sending arguments");
  last_args_.assign(args.begin(), args.end());
  next_arg_block_ = (next_arg_block_ + 1) % arg_block_count_;
}

Bound CudaExecutable::bound(const std::vector<std::uint64_t>& addresses) const {
  const std::span<const std::uint64_t> all(addresses);
  return {all.first(leaf_bytes_.size()), all.subspan(leaf_bytes_.size(), output_bytes_.size()),
          all.back()};
}

LaunchPlace CudaExecutable::place(const Tables& tables, CUstream stream) const {
  return {tables.device(), args_.device(), error_.device(), stream};
}

void CudaExecutable::upload_tables(const Tables& tables,
                                   const std::vector<std::uint64_t>& rows) const {
  device_->staging(stream_number_)
      .upload(tables.device(), rows.data(), rows.size() * sizeof(std::uint64_t));
}

void CudaExecutable::run_eagerly() {
  const Bound buffers = bound(addresses_);
  steps_.bind(buffers);
  if (eager_tables_) {
    std::vector<std::uint64_t> rows;
    steps_.fill_tables(buffers, rows);
    if (rows != eager_rows_) {
      eager_rows_.clear();
      upload_tables(eager_tables_, rows);
      eager_rows_ = std::move(rows);
    }
  }
  note_writes(nullptr);
  const LaunchPlace here = place(eager_tables_, stream_);
  Timeline& timeline = device_->timeline();
  if (timeline.session() == 0) {
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      steps_.issue(step, buffers, here);
      issued = steps_.numbers()[step] + 1;
    }
  } else {
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      TimelineEvent begin = timeline.begin(here.stream);
      steps_.issue(step, buffers, here);
      issued = steps_.numbers()[step] + 1;
      timeline.end(std::move(begin),
                   {.plan = plan_, .step = steps_.numbers()[step], .stream = stream_number_},
                   here.stream);
    }
  }
  count(live_counters().launches, steps_.launches());
  count(live_counters().library_calls, steps_.library_calls());
}

bool CudaExecutable::capture(std::size_t index) {
  try {
    if (index == 0 && !variants_.empty()) {
      context_.synchronize(stream_);  // earlier variants may still be running in the old slots
      variants_.clear();
      slots_ = {};
      slot_copier_ = device_->modules().own_function(slot_copy_kernel());
      slots_ = DeviceMemory(context_, table_.slot_bytes());
    }
    variants_.push_back(record());
    measure();
    return true;
  } catch (const std::exception& error) {
    if (context_.lost()) throw;
    context_.synchronize(stream_);
    variants_.clear();
    slots_ = {};
    measure();
    replay_off_ = true;
    log(LogLevel::warning, fmt::format("{}: a plan is run step by step, its capture failed: {}",
                                       context_.name(), error.what()));
    return false;
  }
}

CudaExecutable::Variant CudaExecutable::record() {
  const std::vector<std::uint64_t> addresses = slotted();
  const Bound buffers = bound(addresses);
  steps_.bind(buffers);
  Variant variant;
  variant.launches = steps_.launches();
  variant.library_calls = steps_.library_calls();
  if (steps_.table_words() > 0) {
    variant.tables = device_->small_memory().take(steps_.table_words() * sizeof(std::uint64_t));
    std::vector<std::uint64_t> rows;
    steps_.fill_tables(buffers, rows);
    upload_tables(variant.tables, rows);
  }
  for (std::size_t i = 0; i < scalars_.size(); ++i) {
    if (scalars_[i] == nullptr || !scalars_[i]->observed || !steps_.last_writer(i)) continue;
    if (scalars_[i]->readback == nullptr) {
      scalars_[i]->readback = std::make_unique<ScalarReadback>(
          context_, device_->modules().own_function(readback_kernel()), stream_);
    }
    variant.read_back.push_back(i);
  }
  variant.graph = capture_steps(variant, {});
  return variant;
}

Graph CudaExecutable::capture_steps(const Variant& variant, std::span<const TimelineEvent> events) {
  const std::vector<std::uint64_t> addresses = slotted();
  const Bound buffers = bound(addresses);
  std::vector<std::vector<std::size_t>> readbacks_after(steps_.size());
  for (const std::size_t i : variant.read_back) readbacks_after[readback_step(i)].push_back(i);
  const CUstream stream = device_->capture_stream();
  const LaunchPlace here = place(variant.tables, stream);
  return Graph(context_, stream, [&] {
    if (!events.empty()) events.front().record_in_replays(stream);
    for (std::size_t step = 0; step < steps_.size(); ++step) {
      steps_.issue(step, buffers, here);
      for (const std::size_t i : readbacks_after[step]) {
        scalars_[i]->readback->enqueue(buffers.outputs[i], output_bytes_[i], stream);
      }
      if (!events.empty()) events[step + 1].record_in_replays(stream);
    }
  });
}

std::size_t CudaExecutable::readback_step(std::size_t output) const {
  const std::uint64_t address = addresses_[output_index(output)];
  const auto leaves_end = addresses_.begin() + static_cast<std::ptrdiff_t>(leaf_bytes_.size());
  // Donated memory may also be written through the leaf.
  const bool donated = std::find(addresses_.begin(), leaves_end, address) != leaves_end;
  return donated ? steps_.size() - 1 : *steps_.last_writer(output);
}

void CudaExecutable::launch_timed(Variant& variant, std::uint64_t session) {
  TimedGraph& timed = variant.timed;
  if (timed.session != session) {
    timed.session = session;
    timed.replays = 0;
    timed.untold = false;
  }
  if (timed.replays++ % kReplaysPerSample != 0 || !prepare_sample(variant)) {
    Timeline& timeline = device_->timeline();
    TimelineEvent begin = timeline.begin(stream_);
    variant.graph.launch(stream_);
    timeline.end(std::move(begin),
                 {.kind = profiling::Span::Kind::Run, .plan = plan_, .stream = stream_number_},
                 stream_);
    return;
  }
  tell(timed);
  timed.graph.launch(stream_);
  timed.untold = true;
}

bool CudaExecutable::prepare_sample(Variant& variant) {
  if (!variant.timed.events.empty()) return true;
  try {
    std::vector<TimelineEvent> events;
    while (events.size() <= steps_.size()) events.emplace_back(context_);
    variant.timed.graph = capture_steps(variant, events);
    variant.timed.events = std::move(events);
    return true;
  } catch (const std::exception& error) {
    if (context_.lost()) throw;
    log(LogLevel::debug,
        fmt::format("{}: the steps of a replay are not timed: {}", context_.name(), error.what()));
    return false;
  }
}

void CudaExecutable::tell(TimedGraph& timed) {
  if (!std::exchange(timed.untold, false)) return;
  timed.events.back().wait();
  device_->timeline().tell_sample(timed.session, plan_, stream_number_, timed.events,
                                  steps_.numbers());
}

void CudaExecutable::tell_replays() {
  const std::lock_guard lock(mutex_);
  for (Variant& variant : variants_) tell(variant.timed);
}

void CudaExecutable::replay(Variant& variant) {
  copy_slots(true);
  const std::size_t all = steps_.numbers().empty() ? 0 : steps_.numbers().back() + 1;
  if (const std::uint64_t session = device_->timeline().session(); session != 0) {
    issued = all;
    launch_timed(variant, session);
  } else {
    variant.graph.launch(stream_);
    issued = all;
  }
  note_writes(&variant);
  copy_slots(false);
  count(live_counters().graph_launches);
  count(live_counters().launches, variant.launches);
  count(live_counters().library_calls, variant.library_calls);
}

std::vector<std::uint64_t> CudaExecutable::slotted() const {
  std::vector<std::uint64_t> addresses = addresses_;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (table_.is_volatile(i)) addresses[i] = slots_.address() + table_.slot(i);
  }
  return addresses;
}

void CudaExecutable::copy_slots(bool in) {
  if (!slots_) return;
  const auto copy_all = [&]() -> std::uint64_t {
    std::uint64_t bytes = 0;
    SlotCopies copies(context_, slot_copier_, stream_);
    const std::size_t first = in ? 0 : leaf_bytes_.size();
    const std::vector<std::uint64_t>& sizes = in ? leaf_bytes_ : output_bytes_;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (!table_.is_volatile(first + i)) continue;
      const CUdeviceptr slot = slots_.address() + table_.slot(first + i);
      const CUdeviceptr outside = addresses_[first + i];
      copies.add(in ? slot : outside, in ? outside : slot, sizes[i]);
      bytes += sizes[i];
    }
    copies.enqueue();
    return bytes;
  };
  Timeline& timeline = device_->timeline();
  if (timeline.session() == 0) {
    copy_all();
    return;
  }
  TimelineEvent begin = timeline.begin(stream_);
  if (const std::uint64_t bytes = copy_all(); bytes > 0) {
    timeline.end(std::move(begin),
                 {.kind = profiling::Span::Kind::Copy, .stream = stream_number_, .bytes = bytes},
                 stream_);
  }
}

void CudaExecutable::note_writes(const Variant* variant) {
  ScalarTable& scalars = device_->scalars();
  scalars.written(addresses_.back(), arena_bytes_);
  for (std::size_t i = 0; i < output_bytes_.size(); ++i) {
    scalars.written(addresses_[output_index(i)], output_bytes_[i]);
  }
  for (std::size_t i = 0; i < scalars_.size(); ++i) {
    if (scalars_[i] == nullptr) continue;
    const bool read_back =
        variant != nullptr && std::find(variant->read_back.begin(), variant->read_back.end(), i) !=
                                  variant->read_back.end();
    scalars.produced(addresses_[output_index(i)], output_bytes_[i], scalars_[i],
                     read_back ? scalars_[i]->readback->issue() : 0);
  }
}

}  // namespace volta::cuda
