// Python's pickles, protocols 2 to 5, as values. No name in them is looked up or run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "volta/export.h"

namespace volta::io {

struct PickleValue;
using PickleValues = std::vector<const PickleValue*>;

struct PickleValue {
  struct None {};
  struct BigInteger {};  // does not fit 64 bits
  struct Bytes {};
  struct Tuple {
    PickleValues items;
  };
  struct List {  // a list or a set
    PickleValues items;
  };
  struct Dict {
    PickleValues items;  // alternating keys and values
  };
  // A Python name such as "collections.OrderedDict".
  struct Global {
    std::string name;
  };
  // The result of calling a global, with the items that were then set in it as in a dict.
  struct Call {
    const PickleValue* function;
    const PickleValue* arguments;  // a Tuple
    PickleValues items;
  };
  // A reference to data outside of the pickle.
  struct Persistent {
    const PickleValue* id;
  };

  std::variant<None, bool, std::int64_t, double, BigInteger, std::string_view, Bytes, Tuple, List,
               Dict, Global, Call, Persistent>
      value;

  template <class T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
  // Returns the items of a tuple or a list, otherwise null.
  VOLTA_BACKEND_API const PickleValues* items() const;
  // Returns the name of a global, otherwise an empty string.
  VOLTA_BACKEND_API std::string_view global() const;
};

struct PickleOptions {
  // Limit for the memory of the values, which take up to 80 bytes per byte of the pickle.
  std::uint64_t max_memory = std::uint64_t{64} << 20;
  bool alone = true;  // bytes after the pickle are an error
};

// A parsed pickle. Values may be shared and may contain themselves.
class VOLTA_BACKEND_API Pickle {
 public:
  // Called with each global; throws if it is unknown.
  using CheckGlobal = std::function<void(const std::string& name)>;

  // Strings are views of `bytes`. Throws IoError, with `source` first, for malformed pickles, for
  // opcodes that no pickler of these protocols writes, and for values that exceed max_memory.
  Pickle(std::span<const std::byte> bytes, const std::string& source,
         const CheckGlobal& check_global, PickleOptions options = {});
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  const PickleValue& root() const { return *root_; }
  std::size_t bytes() const { return bytes_; }  // size of the pickle up to its end
  // All values of the pickle, including those that the root does not reach.
  const std::deque<PickleValue>& values() const { return values_; }

 private:
  std::deque<PickleValue> values_;  // a deque, because values point to each other
  std::size_t bytes_ = 0;
  const PickleValue* root_;
};

}  // namespace volta::io
