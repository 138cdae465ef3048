// Tokens in memory or in mapped files, and character corpora.
#include "volta/data/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "data/host_tensor.h"
#include "platform/files.h"
#include "volta/data/random.h"
#include "volta/error.h"

namespace volta::data {

// Little-endian integers of `bytes` bytes each.
struct Tokens::Storage {
  std::string name;
  std::optional<platform::MappedFile> file;
  std::vector<std::byte> memory;
  std::span<const std::byte> data;
  std::size_t bytes = 1;
  std::uint64_t vocab_size = std::uint64_t{1} << 32;

  std::int64_t size() const { return static_cast<std::int64_t>(data.size() / bytes); }

  std::int64_t at(std::int64_t index) const {
    const std::byte* from = data.data() + static_cast<std::size_t>(index) * bytes;
    std::uint64_t value = 0;
    for (std::size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<std::uint64_t>(from[i]);
    if (value >= vocab_size) {
      throw IoError(fmt::format("{}: token {} at {} is not below the vocabulary's {}", name, value,
                                index, vocab_size));
    }
    return static_cast<std::int64_t>(value);
  }
};

Tokens::Tokens(std::shared_ptr<const Storage> storage)
    : storage_(std::move(storage)), end_(storage_->size()) {}

Tokens Tokens::from_file(const std::string& path, Width width,
                         std::optional<std::int64_t> vocab_size) {
  if (vocab_size && *vocab_size < 1)
    throw ArgumentError(fmt::format("Tokens: a vocabulary of {}", *vocab_size));
  auto storage = std::make_shared<Storage>();
  storage->name = path;
  storage->file.emplace(path);
  storage->data = storage->file->bytes();
  storage->bytes = width == Width::u16 ? 2 : 4;
  if (vocab_size) storage->vocab_size = static_cast<std::uint64_t>(*vocab_size);
  if (storage->data.size() % storage->bytes != 0) {
    throw IoError(fmt::format("{}: {} bytes are no whole number of tokens of {}", path,
                              storage->data.size(), storage->bytes));
  }
  return Tokens(std::move(storage));
}

Tokens Tokens::from_values(std::span<const std::int64_t> values) {
  auto storage = std::make_shared<Storage>();
  storage->name = "Tokens";
  storage->bytes = 4;
  storage->memory.reserve(values.size() * 4);
  for (const std::int64_t value : values) {
    if (value < 0 || value > std::numeric_limits<std::uint32_t>::max())
      throw ArgumentError(fmt::format("Tokens: {} is no token", value));
    for (int i = 0; i < 4; ++i) storage->memory.push_back(static_cast<std::byte>(value >> 8 * i));
  }
  storage->data = storage->memory;
  return Tokens(std::move(storage));
}

std::int64_t Tokens::size() const { return end_ - begin_; }

std::int64_t Tokens::operator[](std::int64_t index) const {
  if (index < 0 || index >= size())
    throw IndexError(fmt::format("Tokens: token {} of {}", index, size()));
  return storage_->at(begin_ + index);
}

Tokens Tokens::slice(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || end < begin || end > size())
    throw IndexError(fmt::format("Tokens: from {} to {} of {}", begin, end, size()));
  Tokens part = *this;
  part.begin_ = begin_ + begin;
  part.end_ = begin_ + end;
  return part;
}

void Tokens::copy(std::int64_t begin, std::int64_t count, std::int64_t* to) const {
  for (std::int64_t i = 0; i < count; ++i) to[i] = storage_->at(begin_ + begin + i);
}

namespace {

// Advances the generator by one block per window.
Random drawn(const Generator& generator, std::int64_t windows) {
  GeneratorState state = generator.state();
  const Random random(state.seed, state.offset);
  state.offset += static_cast<std::uint64_t>(windows);
  generator.set_state(state);
  return random;
}

void require_length(const char* who, std::int64_t length, std::int64_t size) {
  if (length < 1) throw ArgumentError(fmt::format("{}: a length of {}", who, length));
  if (length >= size) {
    throw ArgumentError(fmt::format("{}: windows of {} and what follows do not fit into {} tokens",
                                    who, length, size));
  }
}

}  // namespace

Batch Tokens::batch(const WindowOptions& options) const {
  require_length("batch", options.length, size());
  if (options.batch_size < 1)
    throw ArgumentError(fmt::format("batch: a batch size of {}", options.batch_size));
  const Shape shape{options.batch_size, options.length};
  const HostTensor x = host_tensor(shape, DType::i64), y = host_tensor(shape, DType::i64);
  Random random = drawn(options.generator, options.batch_size);
  std::vector<std::int64_t> window(static_cast<std::size_t>(options.length) + 1);
  const auto places = static_cast<std::uint64_t>(size() - options.length);
  for (std::int64_t i = 0; i < options.batch_size; ++i) {
    copy(static_cast<std::int64_t>(random.below(places)), options.length + 1, window.data());
    const std::int64_t at = i * options.length;
    std::copy(window.begin(), window.end() - 1, reinterpret_cast<std::int64_t*>(x.memory) + at);
    std::copy(window.begin() + 1, window.end(), reinterpret_cast<std::int64_t*>(y.memory) + at);
  }
  return {x.tensor.to(options.device), y.tensor.to(options.device)};
}

Tokens::Windows Tokens::windows(std::int64_t length, std::int64_t stride) const {
  return {*this, length, stride};
}

Tokens::Windows::Windows(Tokens tokens, std::int64_t length, std::int64_t stride)
    : tokens_(std::move(tokens)), length_(length), stride_(stride == 0 ? length : stride) {
  require_length("windows", length, tokens_.size());
  if (stride_ < 1) throw ArgumentError(fmt::format("windows: a stride of {}", stride_));
  count_ = (tokens_.size() - length_ - 1) / stride_ + 1;
}

std::optional<ExampleLayout> Tokens::Windows::layout() const {
  const FieldLayout field{Shape{length_}, DType::i64};
  return ExampleLayout{field, field};
}

void Tokens::Windows::gather(std::span<const std::int64_t> indices, std::byte* x,
                             std::byte* y) const {
  auto* to_x = reinterpret_cast<std::int64_t*>(x);
  auto* to_y = reinterpret_cast<std::int64_t*>(y);
  for (const std::int64_t index : indices) {
    tokens_.copy(index * stride_, length_, to_x);
    tokens_.copy(index * stride_ + 1, length_, to_y);
    to_x += length_;
    to_y += length_;
  }
}

// ---- CharCorpus.
CharCorpus CharCorpus::from_text(std::string_view text) {
  if (text.empty()) throw ArgumentError("CharCorpus: the text is empty");
  std::array<bool, 256> occurs{};
  for (const char c : text) occurs[static_cast<unsigned char>(c)] = true;
  std::string characters;
  std::array<std::byte, 256> numbers{};
  for (std::size_t c = 0; c < occurs.size(); ++c) {
    if (!occurs[c]) continue;
    numbers[c] = static_cast<std::byte>(characters.size());
    characters.push_back(static_cast<char>(c));
  }
  auto storage = std::make_shared<Tokens::Storage>();
  storage->name = "CharCorpus";
  storage->memory.reserve(text.size());
  for (const char c : text) storage->memory.push_back(numbers[static_cast<unsigned char>(c)]);
  storage->data = storage->memory;
  return {std::move(characters), Tokens(std::move(storage))};
}

CharCorpus CharCorpus::from_file(const std::string& path) {
  const std::string text = platform::read_file(path);
  if (text.empty()) throw IoError(path + ": the file is empty");
  return from_text(text);
}

std::vector<std::int64_t> CharCorpus::encode(std::string_view text) const {
  std::vector<std::int64_t> tokens;
  tokens.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto by_code = [](char a, char b) {
      return static_cast<unsigned char>(a) < static_cast<unsigned char>(b);
    };
    const auto found = std::lower_bound(characters_.begin(), characters_.end(), text[i], by_code);
    if (found == characters_.end() || *found != text[i]) {
      throw ArgumentError(fmt::format("CharCorpus: character 0x{:02x} at {} is not in the corpus",
                                      static_cast<unsigned char>(text[i]), i));
    }
    tokens.push_back(found - characters_.begin());
  }
  return tokens;
}

std::string CharCorpus::decode(std::span<const std::int64_t> tokens) const {
  std::string text;
  text.reserve(tokens.size());
  for (const std::int64_t token : tokens) {
    if (token < 0 || token >= vocab_size()) {
      throw ArgumentError(
          fmt::format("CharCorpus: token {} of a vocabulary of {}", token, vocab_size()));
    }
    text.push_back(characters_[static_cast<std::size_t>(token)]);
  }
  return text;
}

std::pair<CharCorpus, CharCorpus> CharCorpus::split(double first_fraction) const {
  if (!(first_fraction >= 0 && first_fraction <= 1))
    throw ArgumentError(fmt::format("CharCorpus: a fraction of {}", first_fraction));
  const auto first = static_cast<std::int64_t>(first_fraction * static_cast<double>(size()));
  return {CharCorpus(characters_, tokens_.slice(0, first)),
          CharCorpus(characters_, tokens_.slice(first, size()))};
}

}  // namespace volta::data
