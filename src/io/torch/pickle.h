// Python's pickles, protocols 2 to 5, as values: nothing that they name is looked up or run.
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
  struct BigInteger {};  // one beyond 64 bits
  struct Bytes {};
  struct Tuple {
    PickleValues items;
  };
  struct List {  // or a set
    PickleValues items;
  };
  struct Dict {
    PickleValues items;  // keys and values in turn
  };
  // A name of Python's, "collections.OrderedDict".
  struct Global {
    std::string name;
  };
  // What a call of a global would give, and what was put into it as into a dict.
  struct Call {
    const PickleValue* function;
    const PickleValue* arguments;  // a Tuple
    PickleValues items;
  };
  // What the writer keeps outside of the pickle.
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
  // Of a tuple or a list; else null.
  VOLTA_BACKEND_API const PickleValues* items() const;
  // The name if this is a global; else empty.
  VOLTA_BACKEND_API std::string_view global() const;
};

struct PickleOptions {
  // How much memory the values may take, which are up to 80 bytes for each byte of the pickle.
  std::uint64_t max_memory = std::uint64_t{64} << 20;
  bool alone = true;  // bytes after the pickle are an error
};

// A pickle that was read. Values may occur in several places, and within themselves.
class VOLTA_BACKEND_API Pickle {
 public:
  // Called with each global; throws where it is unknown.
  using CheckGlobal = std::function<void(const std::string& name)>;

  // Texts stay views of `bytes`. Throws IoError, beginning with `source`, for what is malformed,
  // for opcodes that no pickler of these protocols writes, and for more values than max_memory
  // holds.
  Pickle(std::span<const std::byte> bytes, const std::string& source,
         const CheckGlobal& check_global, PickleOptions options = {});
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  const PickleValue& root() const { return *root_; }
  std::size_t bytes() const { return bytes_; }  // of the pickle, up to its end
  // All that the pickle has: those that the root does not lead to, too.
  const std::deque<PickleValue>& values() const { return values_; }

 private:
  std::deque<PickleValue> values_;  // they refer to each other
  std::size_t bytes_ = 0;
  const PickleValue* root_;
};

}  // namespace volta::io
