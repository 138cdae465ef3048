// Loading backends and keeping their devices.
#include "backend/registry.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend_loader.h"
#include "backend/cpu_backend.h"
#include "backend/fork_guard.h"
#include "platform/fork.h"
#include "volta/error.h"

namespace volta {
namespace {

std::atomic<WrapBackend> backend_wrapper{nullptr};

// A family of devices, with its backend and devices once it has been named.
class Family {
 public:
  explicit Family(DeviceType type) : type_(type) {}

  const std::vector<DeviceEntry*>& entries() {
    load();
    return entries_;
  }
  // The devices of the family; empty if it has not been named yet.
  std::span<DeviceEntry* const> known_entries() const {
    if (!is_loaded_.load(std::memory_order_acquire)) return {};
    return entries_;
  }
  const std::string& why_absent() {
    load();
    return why_absent_;
  }
  // Whether the driver was loaded in a process that this one was forked from.
  bool is_forked() const {
    return type_ != DeviceType::cpu && is_loaded_.load(std::memory_order_acquire) &&
           forks_ != platform::forks();
  }

 private:
  void load() {
    std::call_once(loaded_, [this] {
      forks_ = platform::forks();
      Backend* backend = type_ == DeviceType::cpu
                             ? make_cpu_backend().release()
                             : load_backend(type_, backend_folders(), &why_absent_);
      if (backend == nullptr) return;
      if (const WrapBackend wrap = backend_wrapper.load()) backend = wrap(type_, backend);
      try {
        add_devices(*backend);
        if (entries_.empty())
          why_absent_ = std::string("no ") + family_label(type_) + " device found";
      } catch (const std::exception& error) {
        entries_.clear();
        why_absent_ = error.what();
      }
      is_loaded_.store(true, std::memory_order_release);
    });
  }

  void add_devices(Backend& backend) {
    constexpr int kMaxDevices = 256;  // Device stores its index in a byte
    const int count = std::min(backend.device_count(), kMaxDevices);
    for (int index = 0; index < count; ++index) {
      const Device device = DeviceAccess::make(type_, index);
      auto& pool = *new Pool(backend, index, to_string(device));
      auto& lock = *new std::recursive_mutex;
      platform::ForkLock held = platform::fork_lock_of(lock);
      held.wait = [](void* device) { static_cast<std::recursive_mutex*>(device)->lock(); };
      platform::add_fork_lock(held);
      auto& streams = *new Streams(backend, index, lock);
      auto& pinned = *new PinnedCache(backend, index);
      entries_.push_back(new DeviceEntry{device, backend, index, pool, lock, streams, pinned});
    }
  }

  DeviceType type_;
  std::once_flag loaded_;
  std::atomic<bool> is_loaded_{false};
  int forks_ = 0;
  std::vector<DeviceEntry*> entries_;
  std::string why_absent_;
};

// Never destroyed; see the header.
Family& family(DeviceType type) {
  static Family* const families[] = {new Family(DeviceType::cpu), new Family(DeviceType::cuda),
                                     new Family(DeviceType::opencl)};
  return *families[static_cast<int>(type)];
}

}  // namespace

bool is_forked(const DeviceEntry& entry) { return family(entry.device.type()).is_forked(); }

bool has_cpu_only() {
  return family(DeviceType::cuda).is_forked() || family(DeviceType::opencl).is_forked();
}

void require_not_forked(const DeviceEntry& entry) {
  if (!is_forked(entry)) [[likely]]
    return;
  throw DeviceError(to_string(entry.device) +
                    ": this process was forked after its parent had used the device; fork before "
                    "the first use, or start another program (exec)");
}

DeviceEntry& device_entry(Device device) {
  const auto& entries = family(device.type()).entries();
  const auto index = static_cast<std::size_t>(device.index());
  if (index < entries.size()) {
    require_not_forked(*entries[index]);
    return *entries[index];
  }
  throw DeviceError(why_unusable(device.type(), device.index()));
}

std::string why_absent(DeviceType type) { return family(type).why_absent(); }

std::string why_unusable(DeviceType type, int index) {
  const int count = device_count(type);
  if (index >= 0 && index < count) return {};
  const std::string device = std::string(family_name(type)) + ":" + std::to_string(index) + ": ";
  if (count == 0) return device + why_absent(type);
  return device + "there are " + std::to_string(count) + " " + family_label(type) + " devices";
}

Backend* backend_of(DeviceType type) {
  const auto& entries = family(type).entries();
  return entries.empty() ? nullptr : &entries.front()->backend;
}

void for_each_used_device(const std::function<void(DeviceEntry&)>& body) {
  for (const DeviceType type : {DeviceType::cpu, DeviceType::cuda, DeviceType::opencl}) {
    for (DeviceEntry* entry : family(type).known_entries()) body(*entry);
  }
}

void wrap_backends(WrapBackend wrap) { backend_wrapper.store(wrap); }

int device_count(DeviceType type) { return static_cast<int>(family(type).entries().size()); }

}  // namespace volta
