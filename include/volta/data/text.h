// Text and tokens for language models: corpora of characters, files of token numbers, and windows
// of them: x is `length` tokens, y the tokens that follow each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "volta/data/dataset.h"
#include "volta/device.h"
#include "volta/export.h"
#include "volta/generator.h"

namespace volta::data {

struct WindowOptions {
  std::int64_t batch_size = 1;
  std::int64_t length = 0;
  Device device = Device::cpu();
  Generator generator = {};  // where the windows are drawn from
};

// A row of token numbers, in memory or in a memory-mapped file. Copies share it.
class VOLTA_API Tokens {
 public:
  // Numbers of 16 or 32 bits, little-endian, one after the other. Those at or above vocab_size are
  // refused when they are read.
  enum class Width : std::uint8_t { u16, u32 };
  static Tokens from_file(const std::string& path, Width width,
                          std::optional<std::int64_t> vocab_size = std::nullopt);
  // Numbers 0 to 2^32 - 1.
  static Tokens from_values(std::span<const std::int64_t> values);

  std::int64_t size() const;
  std::int64_t operator[](std::int64_t index) const;  // throws IndexError out of range
  // From `begin` up to and without `end`; shares the memory.
  Tokens slice(std::int64_t begin, std::int64_t end) const;

  // Windows at random places: x and y, i64 [batch_size, length].
  Batch batch(const WindowOptions& options) const;
  // Windows that begin every `stride` tokens (by default they follow each other), as a dataset.
  class VOLTA_API Windows;
  Windows windows(std::int64_t length, std::int64_t stride = 0) const;

 private:
  friend class CharCorpus;
  struct Storage;
  explicit Tokens(std::shared_ptr<const Storage> storage);
  void copy(std::int64_t begin, std::int64_t count, std::int64_t* to) const;
  std::shared_ptr<const Storage> storage_;
  std::int64_t begin_ = 0, end_ = 0;
};

class VOLTA_API Tokens::Windows : public Dataset {
 public:
  std::int64_t size() const override { return count_; }
  std::optional<ExampleLayout> layout() const override;
  void gather(std::span<const std::int64_t> indices, std::byte* x, std::byte* y) const override;

 private:
  friend class Tokens;
  Windows(Tokens tokens, std::int64_t length, std::int64_t stride);
  Tokens tokens_;
  std::int64_t length_, stride_, count_;
};

// A text and the characters that occur in it, numbered in their order: a vocabulary. Characters
// are bytes; those of UTF-8 beyond ASCII are several.
class VOLTA_API CharCorpus {
 public:
  static CharCorpus from_file(const std::string& path);
  static CharCorpus from_text(std::string_view text);

  std::int64_t size() const { return tokens_.size(); }
  std::int64_t vocab_size() const { return static_cast<std::int64_t>(characters_.size()); }
  const std::string& characters() const { return characters_; }

  std::vector<std::int64_t> encode(std::string_view text) const;  // throws for other characters
  std::string decode(std::span<const std::int64_t> tokens) const;

  const Tokens& tokens() const { return tokens_; }
  // Windows at random places, drawn from the calling thread's generator unless options say
  // otherwise: x and y, i64 [batch_size, length].
  Batch batch(const WindowOptions& options) const { return tokens_.batch(options); }
  // The first part of the text and the rest, with the vocabulary of both.
  std::pair<CharCorpus, CharCorpus> split(double first_fraction) const;

 private:
  CharCorpus(std::string characters, Tokens tokens)
      : characters_(std::move(characters)), tokens_(std::move(tokens)) {}
  std::string characters_;
  Tokens tokens_;
};

// Some verse and scenes of Shakespeare's: text to learn with nothing to download.
VOLTA_API std::string_view embedded_text();

}  // namespace volta::data
