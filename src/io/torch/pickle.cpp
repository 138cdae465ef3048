// The pickle machine: opcodes push values on a stack, memoize them and combine them.
#include "io/torch/pickle.h"

#include <array>
#include <bit>

#include <fmt/format.h>

#include "volta/error.h"

namespace volta::io {
namespace {

constexpr std::size_t kMaxGlobal = 256;  // longest name in bytes

// The opcodes that picklers of protocols 2 to 5 write, under Python's names.
enum Opcode : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kEmptyDict = '}',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kEmptyList = ']',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kEmptyTuple = ')',
  kSetItems = 'u',
  kProto = 0x80,
  kNewObj = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
};

class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const std::string& source,
          const Pickle::CheckGlobal& check_global, PickleOptions options,
          std::deque<PickleValue>& values)
      : options_(options),
        left_(options.max_memory),
        text_(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
        source_(source),
        check_global_(check_global),
        values_(values),
        none_(make(PickleValue::None{})),
        true_(make(true)),
        false_(make(false)),
        empty_tuple_(make(PickleValue::Tuple{})) {}

  const PickleValue* run() {
    if (text_.empty() || number(1) != kProto) fail("it is no pickle of protocol 2 or later");
    if (const std::uint64_t protocol = number(1); protocol < 2 || protocol > 5)
      fail(fmt::format("protocol {} is not known", protocol));
    for (;;) {
      start_ = at_;
      const auto opcode = static_cast<std::uint8_t>(number(1));
      if (opcode == kStop) break;
      if (!push_constant(opcode) && !push_text(opcode) && !collect(opcode) && !remember(opcode) &&
          !call(opcode))
        fail(fmt::format("opcode 0x{:02x} is none that picklers write since protocol 2", opcode));
    }
    if (options_.alone && at_ != text_.size())
      fail(fmt::format("{} bytes after the end", text_.size() - at_));
    return take();
  }
  std::size_t bytes_read() const { return at_; }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw IoError(fmt::format("{}: at byte {} of the pickle: {}", source_, start_, problem));
  }

  // ---- Reading the text.
  std::string_view bytes(std::uint64_t count) {
    if (count > text_.size() - at_)
      fail(fmt::format("{} bytes are wanted, {} are left", count, text_.size() - at_));
    const std::string_view part = text_.substr(at_, count);
    at_ += count;
    return part;
  }
  std::uint64_t number(std::size_t size) { return little_endian(bytes(size)); }
  static std::uint64_t little_endian(std::string_view part) {
    std::uint64_t value = 0;
    for (std::size_t i = part.size(); i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(part[i]);
    return value;
  }
  std::string_view line() {
    const std::size_t end = text_.find('\n', at_);
    if (end == std::string_view::npos) fail("a line does not end");
    const std::string_view part = text_.substr(at_, end - at_);
    at_ = end + 1;
    return part;
  }

  // Called before memory is allocated.
  void spend(std::uint64_t bytes) {
    if (bytes > left_)
      fail(fmt::format("its values take more than {} bytes, which a file of tensors does not need",
                       options_.max_memory));
    left_ -= bytes;
  }
  // A growing vector of pointers takes up to twice the memory of its content.
  static constexpr std::uint64_t kItemBytes = 2 * sizeof(void*);

  // ---- The stack. Values below the last mark cannot be reached until the mark is popped.
  template <class T>
  PickleValue* make(T value) {
    spend(sizeof(PickleValue));
    return &values_.emplace_back(PickleValue{std::move(value)});
  }
  bool push(PickleValue* value) {
    if (stack_.size() == stack_.capacity()) spend(kItemBytes * (stack_.size() + 1));
    stack_.push_back(value);
    return true;
  }
  bool push_integer(std::uint64_t value) {  // most integers are small and shared
    if (value >= small_.size()) return push_new(static_cast<std::int64_t>(value));
    PickleValue*& known = small_[value];
    if (known == nullptr) known = make(static_cast<std::int64_t>(value));
    return push(known);
  }
  template <class T>
  bool push_new(T value) {
    return push(make(std::move(value)));
  }
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue* take() {
    PickleValue* value = top();
    stack_.pop_back();
    return value;
  }
  PickleValue* top() const {
    if (stack_.size() == floor()) fail("the stack has too few values");
    return stack_.back();
  }
  PickleValues take_to_mark() {
    if (marks_.empty()) fail("there is no mark");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    spend(kItemBytes * (stack_.size() - marks_.back()));
    PickleValues taken(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return taken;
  }
  PickleValues take_last(std::size_t count) {
    PickleValues taken(count);
    while (count-- > 0) taken[count] = take();
    return taken;
  }

  // ---- Opcodes. These functions return false for opcodes of other kinds.
  bool push_constant(std::uint8_t opcode) {
    switch (opcode) {
      case kNone:
        return push(none_);
      case kNewTrue:
        return push(true_);
      case kNewFalse:
        return push(false_);
      case kEmptyTuple:
        return push(empty_tuple_);
      case kBinInt:
        return push_new(std::int64_t{static_cast<std::int32_t>(number(4))});
      case kBinInt1:
        return push_integer(number(1));
      case kBinInt2:
        return push_integer(number(2));
      case kLong1:
        return push_long(bytes(number(1)));
      case kLong4:
        return push_long(bytes(number(4)));
      case kBinFloat: {  // the only big-endian number
        std::uint64_t bits = 0;
        for (const char byte : bytes(8)) bits = bits << 8 | static_cast<unsigned char>(byte);
        return push_new(std::bit_cast<double>(bits));
      }
      default:
        return false;
    }
  }

  bool push_long(std::string_view digits) {
    if (digits.size() > 8) return push_new(PickleValue::BigInteger{});
    const std::uint64_t value = little_endian(digits);
    const std::size_t unused = 64 - 8 * digits.size();
    if (unused == 64) return push_new(std::int64_t{0});
    // Shifting up and down again sign-extends the value.
    return push_new(static_cast<std::int64_t>(value << unused) >> unused);
  }

  bool push_text(std::uint8_t opcode) {
    switch (opcode) {
      case kShortBinUnicode:
      case kShortBinString:
        return push_new(bytes(number(1)));
      case kBinUnicode:
      case kBinString:
        return push_new(bytes(number(4)));
      case kBinUnicode8:
        return push_new(bytes(number(8)));
      case kShortBinBytes:
        bytes(number(1));
        return push_new(PickleValue::Bytes{});
      case kBinBytes:
        bytes(number(4));
        return push_new(PickleValue::Bytes{});
      case kBinBytes8:
      case kByteArray8:
        bytes(number(8));
        return push_new(PickleValue::Bytes{});
      default:
        return false;
    }
  }

  bool collect(std::uint8_t opcode) {
    switch (opcode) {
      case kMark:
        if (marks_.size() == marks_.capacity()) spend(kItemBytes * (marks_.size() + 1));
        marks_.push_back(stack_.size());
        return true;
      case kEmptyDict:
        return push_new(PickleValue::Dict{});
      case kEmptyList:
      case kEmptySet:
        return push_new(PickleValue::List{});
      case kTuple:
        return push_new(PickleValue::Tuple{take_to_mark()});
      case kTuple1:
      case kTuple2:
      case kTuple3:
        spend(kItemBytes * 3);
        return push_new(PickleValue::Tuple{take_last(opcode - kTuple1 + 1)});
      case kFrozenSet:
        return push_new(PickleValue::List{take_to_mark()});
      case kAppend:
        spend(kItemBytes);
        return append(take_last(1));
      case kAppends:
      case kAddItems:
        return append(take_to_mark());
      case kSetItem:
        spend(2 * kItemBytes);
        return set_items(take_last(2));
      case kSetItems:
        return set_items(take_to_mark());
      default:
        return false;
    }
  }

  static bool extend(PickleValues& items, const PickleValues& more) {
    items.insert(items.end(), more.begin(), more.end());
    return true;
  }
  bool append(const PickleValues& items) {
    auto* list = std::get_if<PickleValue::List>(&top()->value);
    if (list == nullptr) fail("values are appended to what is no list");
    return extend(list->items, items);
  }
  bool set_items(const PickleValues& items) {
    if (items.size() % 2 != 0) fail("a key has no value");
    auto& target = top()->value;
    if (auto* dict = std::get_if<PickleValue::Dict>(&target)) return extend(dict->items, items);
    auto* made = std::get_if<PickleValue::Call>(&target);
    if (made == nullptr) fail("items are set in what is no dict");
    return extend(made->items, items);
  }

  bool remember(std::uint8_t opcode) {
    switch (opcode) {
      case kMemoize:
        return put(memo_.size());
      case kBinPut:
        return put(number(1));
      case kLongBinPut:
        return put(number(4));
      case kBinGet:
        return get(number(1));
      case kLongBinGet:
        return get(number(4));
      case kPop:
        if (!marks_.empty() && marks_.back() == stack_.size()) {
          marks_.pop_back();
        } else {
          take();
        }
        return true;
      case kPopMark:
        take_to_mark();
        return true;
      case kFrame:  // a hint about how much to read at once
        if (number(8) > text_.size() - at_) fail("a frame is longer than the pickle");
        return true;
      default:
        return false;
    }
  }

  bool put(std::uint64_t index) {
    if (index > memo_.size())
      fail(fmt::format("memo {} is set where {} are known", index, memo_.size()));
    if (index == memo_.size()) {
      spend(kItemBytes);
      memo_.push_back(nullptr);
    }
    memo_[index] = top();
    return true;
  }
  bool get(std::uint64_t index) {
    if (index >= memo_.size())
      fail(fmt::format("memo {} is asked for where {} are known", index, memo_.size()));
    return push(memo_[index]);
  }

  bool call(std::uint8_t opcode) {
    switch (opcode) {
      case kGlobal: {
        const std::string_view module = line();
        return push_global(module, line());
      }
      case kStackGlobal: {
        const PickleValues names = take_last(2);
        const auto* module = names[0]->as<std::string_view>();
        const auto* name = names[1]->as<std::string_view>();
        if (module == nullptr || name == nullptr) fail("a global's name is no text");
        return push_global(*module, *name);
      }
      case kReduce:
      case kNewObj: {
        const PickleValues parts = take_last(2);
        if (parts[0]->as<PickleValue::Global>() == nullptr) fail("what is called is no global");
        if (parts[1]->as<PickleValue::Tuple>() == nullptr) fail("arguments are no tuple");
        return push_new(PickleValue::Call{parts[0], parts[1], {}});
      }
      case kBuild:  // sets attributes, which no value here has
        take();
        if (top()->as<PickleValue::Call>() == nullptr) fail("attributes of what is no object");
        return true;
      case kBinPersId:
        return push_new(PickleValue::Persistent{take()});
      default:
        return false;
    }
  }

  bool push_global(std::string_view module, std::string_view name) {
    if (module.size() > kMaxGlobal || name.size() > kMaxGlobal) fail("a global's name is too long");
    std::string whole = fmt::format("{}.{}", module, name);
    check_global_(whole);
    spend(whole.size() + 1);
    return push_new(PickleValue::Global{std::move(whole)});
  }

  PickleOptions options_;
  std::uint64_t left_;
  std::array<PickleValue*, 256> small_{};  // shared values of small integers
  std::string_view text_;
  const std::string& source_;
  const Pickle::CheckGlobal& check_global_;
  std::deque<PickleValue>& values_;
  PickleValue *none_, *true_, *false_, *empty_tuple_;
  std::size_t at_ = 0, start_ = 0;  // positions of the next byte and of the current opcode
  std::vector<PickleValue*> stack_, memo_;
  std::vector<std::size_t> marks_;
};

}  // namespace

const PickleValues* PickleValue::items() const {
  if (const auto* tuple = as<Tuple>()) return &tuple->items;
  const auto* list = as<List>();
  return list != nullptr ? &list->items : nullptr;
}

std::string_view PickleValue::global() const {
  const auto* found = as<Global>();
  return found != nullptr ? std::string_view(found->name) : std::string_view();
}

Pickle::Pickle(std::span<const std::byte> bytes, const std::string& source,
               const CheckGlobal& check_global, PickleOptions options) {
  Machine machine(bytes, source, check_global, options, values_);
  root_ = machine.run();
  bytes_ = machine.bytes_read();
}

}  // namespace volta::io
