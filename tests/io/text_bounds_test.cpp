// Limits of text readers: tables and vocabularies whose files use their bytes as badly as possible.
// The bounds are those of SECURITY.md.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "io/io_files.h"
#include "support/peak_memory.h"
#include "volta/data/csv.h"
#include "volta/text/tokenizer.h"
#include "volta/volta.h"

namespace volta {
namespace {

class TextBounds : public TemporaryFolder {
 protected:
  // Returns the most memory that a call takes, as a multiple of the file beyond the free amount. It
  // is also recorded in the result, because the numbers of SECURITY.md come from here.
  double multiple(const std::string& what, std::size_t bytes, std::uint64_t free,
                  const std::function<void()>& call) {
    const std::uint64_t peak = peak_bytes(call);
    RecordProperty(what, std::to_string(static_cast<double>(peak) / static_cast<double>(bytes)));
    return peak <= free ? 0 : static_cast<double>(peak - free) / static_cast<double>(bytes);
  }
};

// ---- CSV.

constexpr std::uint64_t kTableBytes = 16 * kMiB;
constexpr double kCsvMultiple = 16;
constexpr std::uint64_t kCsvFree = 128 * kMiB;

std::string repeated(const std::string& unit, std::uint64_t bytes) {
  std::string text;
  text.reserve(bytes + unit.size());
  while (text.size() < bytes) text += unit;
  return text;
}

TEST_F(TextBounds, RowsOfOneDigit) {
  for (const auto& [what, options] : std::vector<std::pair<std::string, data::CsvOptions>>{
           {"features", {}},
           {"labels", {.labels = {"a"}, .label_dtype = DType::i64}},
           {"names", {.labels = {"a"}, .label_names = true}},
           {"both", {.features = {"a"}, .labels = {"a"}, .label_dtype = DType::i64}}}) {
    const std::string file = put("rows.csv", "a\n" + repeated("1\n", kTableBytes));
    EXPECT_LT(multiple(what, kTableBytes, 16 * kMiB,
                       [&] { EXPECT_GT(data::read_csv(file, options).size(), 8'000'000); }),
              kCsvMultiple)
        << what;
  }
}

TEST_F(TextBounds, AMillionColumns) {
  constexpr std::size_t kColumns = 1 << 20;
  std::string names, values;
  for (std::size_t i = 0; i < kColumns; ++i) {
    names += i == 0 ? "a" : ",a";
    values += i == 0 ? "1" : ",1";
  }
  const std::string file = put("wide.csv", names + "\n" + values + "\n");
  EXPECT_LT(multiple("names", 2 * names.size(), kCsvFree, [&] { data::read_csv(file); }),
            kCsvMultiple);
  const std::string bare = put("bare.csv", values + "\n" + values + "\n");
  EXPECT_LT(multiple("no_names", 2 * values.size(), kCsvFree,
                     [&] { data::read_csv(bare, {.header = false}); }),
            kCsvMultiple);
  const std::string more = put("more.csv", names + ",a\n");
  EXPECT_EQ(problem_of([&] { data::read_csv(more); }),
            more + ": line 1: more than a million columns");
}

TEST_F(TextBounds, LongFields) {
  for (const auto& [what, begin, unit, end] :
       {std::tuple{"long_name", "\"", "x", "\"\n1\n"},
        {"quotes", "\"", "\"\"", "\"\n1\n"},
        {"value", "a\n\"", "1", "\"\n"},
        {"unquoted", "a\n", "1", "\n"},
        {"unended", "a\n\"", "x", ""},
        {"short_names", "\"0123456789abcdef\"", ",\"0123456789abcdef\"", "\n"},
        {"lines", "a\n\"", "\n", "\"\n"}}) {
    const std::string text = begin + repeated(unit, kTableBytes) + end;
    const std::string file = put("long.csv", text);
    EXPECT_LT(
        multiple(what, text.size(), kCsvFree, [&] { problem_of([&] { data::read_csv(file); }); }),
        kCsvMultiple)
        << what;
  }
}

TEST_F(TextBounds, ClassesAreCounted) {
  constexpr int kMost = 1 << 20;
  // Each row is another class of three bytes that need no quotes.
  std::string rows = "a\n";
  for (int i = 0; i < kMost; ++i) {
    for (const int digit : {i % 180, i / 180 % 180, i / 32'400})
      rows.push_back(static_cast<char>(64 + digit));
    rows += "\n";
  }
  const data::CsvOptions options = {.labels = {"a"}, .label_names = true};
  const std::string file = put("classes.csv", rows);
  EXPECT_LT(
      multiple(
          "classes", rows.size(), kCsvFree,
          [&] { EXPECT_EQ(data::read_csv(file, options).classes().size(), std::size_t{kMost}); }),
      kCsvMultiple);
  const std::string more = put("more.csv", rows + "one more\n");
  EXPECT_EQ(problem_of([&] { data::read_csv(more, options); }),
            more + ": line 1048578: more than a million classes");
}

// ---- Tokenizers.

constexpr double kTokenizerMultiple = 16;

// Writes a byte as vocabularies do: printable bytes unchanged, others as characters from U+0100 on.
std::string written(unsigned byte) {
  unsigned code = byte;
  if (byte <= 0x20) code = 0x100 + byte;
  if (byte >= 0x7F && byte <= 0xA0) code = 0x121 + byte - 0x7F;
  if (byte == 0xAD) code = 0x143;
  if (code == '"' || code == '\\') return std::string{'\\', static_cast<char>(code)};
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

// The shortest possible tokens: single bytes, then all pairs and triples of plain characters.
struct Vocabulary {
  std::string tokens;               // members of a JSON object
  std::vector<std::string> merges;  // "ab c"
  int size = 0;

  Vocabulary() {
    for (unsigned byte = 0; byte < 256; ++byte) add(written(byte));
    std::string plain;
    for (char c = '!'; c <= '~'; ++c)
      if (c != '"' && c != '\\') plain.push_back(c);
    plain.resize(72);  // with all of these, the tables have just grown
    for (const char a : plain) {
      for (const char b : plain) {
        add({a, b});
        merges.push_back({a, ' ', b});
        for (const char c : plain) {
          add({a, b, c});
          merges.push_back({a, b, ' ', c});
        }
      }
    }
  }
  void add(const std::string& token) {
    tokens += (size == 0 ? "\"" : ",\"") + token + "\":" + std::to_string(size);
    ++size;
  }
};

TEST_F(TextBounds, TheShortestTokensAndMerges) {
  const Vocabulary vocabulary;
  std::string lines, list;
  for (const std::string& merge : vocabulary.merges) {
    lines += merge + "\n";
    list += (list.empty() ? "\"" : ",\"") + merge + "\"";
  }
  const std::string vocab = "{" + vocabulary.tokens + "}";
  const std::string first = put("vocab.json", vocab), second = put("merges.txt", lines);
  EXPECT_LT(multiple("two_files", vocab.size() + lines.size(), 8 * kMiB,
                     [&] {
                       EXPECT_EQ(text::BPETokenizer::from_files(first, second).vocab_size(),
                                 vocabulary.size);
                     }),
            kTokenizerMultiple);
  const std::string whole =
      R"({"added_tokens":[],"pre_tokenizer":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":)" +
      vocab + ",\"merges\":[" + list + "]}}";
  const std::string one = put("tokenizer.json", whole);
  EXPECT_LT(multiple("one_file", whole.size(), 8 * kMiB,
                     [&] {
                       EXPECT_EQ(text::BPETokenizer::from_tokenizer_json(one).vocab_size(),
                                 vocabulary.size);
                     }),
            kTokenizerMultiple);
  // There are no merges here, which take less memory than tokens.
  const std::string none = put("merges.txt", "");
  EXPECT_LT(multiple("tokens_alone", vocab.size(), 8 * kMiB,
                     [&] { text::BPETokenizer::from_files(first, none); }),
            kTokenizerMultiple);
}

TEST_F(TextBounds, LongTokens) {
  std::string bytes;
  for (unsigned byte = 0; byte < 256; ++byte)
    bytes += "\"" + written(byte) + "\":" + std::to_string(byte) + ",";
  for (const auto& [what, unit] : {std::pair{"plain", "a"},
                                   {"escaped", "\\u0061"},
                                   {"two_bytes", "\xC4\x80"},
                                   {"quotes", "\\\""}}) {
    const std::string vocab = "{" + bytes + "\"" + repeated(unit, 16 * kMiB) + "\":256}";
    const std::string first = put("vocab.json", vocab), second = put("merges.txt", "");
    EXPECT_LT(multiple(what, vocab.size(), 8 * kMiB,
                       [&] {
                         EXPECT_EQ(text::BPETokenizer::from_files(first, second).vocab_size(), 257);
                       }),
              kTokenizerMultiple)
        << what;
  }
}

TEST_F(TextBounds, AddedTokensAreCounted) {
  std::string added;
  for (int i = 0; i < 400'000; ++i)
    added += (i == 0 ? R"({"id":)" : R"(,{"id":)") + std::to_string(i) + R"(,"content":")" +
             std::to_string(i) + "\"}";
  const std::string file =
      put("tokenizer.json", R"({"pre_tokenizer":{"type":"ByteLevel"},"added_tokens":[)" + added +
                                R"(],"model":{"vocab":{},"merges":[]}})");
  std::string problem;
  EXPECT_LT(multiple("added", added.size(), 8 * kMiB,
                     [&] {
                       problem = problem_of([&] { text::BPETokenizer::from_tokenizer_json(file); });
                     }),
            kTokenizerMultiple);
  EXPECT_EQ(problem, file + ": more than 65536 special tokens");
}

}  // namespace
}  // namespace volta
