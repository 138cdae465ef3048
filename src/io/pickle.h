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

// A pickle that was read. Values may occur in several places, and within themselves.
class VOLTA_BACKEND_API Pickle {
 public:
  // Called with each global; throws where it is unknown.
  using CheckGlobal = std::function<void(const std::string& name)>;

  // Texts stay views of `bytes`. Throws IoError, beginning with `source`, for what is malformed and
  // for opcodes that no pickler of these protocols writes. Memory is bounded: at most 64 bytes or
  // so for each byte read.
  Pickle(std::span<const std::byte> bytes, const std::string& source,
         const CheckGlobal& check_global);
  Pickle(const Pickle&) = delete;
  Pickle& operator=(const Pickle&) = delete;

  const PickleValue& root() const { return *root_; }

 private:
  std::deque<PickleValue> values_;  // they refer to each other
  const PickleValue* root_;
};

}  // namespace volta::io
