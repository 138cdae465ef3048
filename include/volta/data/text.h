// Text and tokens for language models: character corpora, files of token IDs, and windows of them,
// in which x is `length` tokens and y the token that follows each.
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
  Generator generator = {};  // draws the positions of the windows
};

// A sequence of token IDs, in memory or in a memory-mapped file. Copies share it.
class VOLTA_API Tokens {
 public:
  // Little-endian integers of 16 or 32 bits. IDs of vocab_size or more are refused when they are
  // read.
  enum class Width : std::uint8_t { u16, u32 };
  static Tokens from_file(const std::string& path, Width width,
                          std::optional<std::int64_t> vocab_size = std::nullopt);
  // IDs from 0 to 2^32 - 1.
  static Tokens from_values(std::span<const std::int64_t> values);

  std::int64_t size() const;
  std::int64_t operator[](std::int64_t index) const;  // throws IndexError out of range
  // Tokens from `begin` up to, but not including, `end`; shares the memory.
  Tokens slice(std::int64_t begin, std::int64_t end) const;

  // Windows at random positions: x and y are i64 [batch_size, length].
  Batch batch(const WindowOptions& options) const;
  // A dataset of windows that begin every `stride` tokens; by default they do not overlap.
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

// A text with a vocabulary of the characters that occur in it, numbered in order. Characters are
// bytes, so a UTF-8 character beyond ASCII counts as several.
class VOLTA_API CharCorpus {
 public:
  static CharCorpus from_file(const std::string& path);
  static CharCorpus from_text(std::string_view text);

  std::int64_t size() const { return tokens_.size(); }
  std::int64_t vocab_size() const { return static_cast<std::int64_t>(characters_.size()); }
  const std::string& characters() const { return characters_; }

  // Throws for characters outside of the vocabulary.
  std::vector<std::int64_t> encode(std::string_view text) const;
  std::string decode(std::span<const std::int64_t> tokens) const;

  const Tokens& tokens() const { return tokens_; }
  // Windows at random positions: x and y are i64 [batch_size, length]. The calling thread's
  // generator draws them unless options say otherwise.
  Batch batch(const WindowOptions& options) const { return tokens_.batch(options); }
  // Splits the text into a first part and the rest; both keep the whole vocabulary.
  std::pair<CharCorpus, CharCorpus> split(double first_fraction) const;

 private:
  CharCorpus(std::string characters, Tokens tokens)
      : characters_(std::move(characters)), tokens_(std::move(tokens)) {}
  std::string characters_;
  Tokens tokens_;
};

// Verse and scenes by Shakespeare: text to train on without a download.
VOLTA_API std::string_view embedded_text();

}  // namespace volta::data
