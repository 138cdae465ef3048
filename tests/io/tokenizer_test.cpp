// The byte-pair tokenizer: agreement with the tokenizers package on 1,000 strings
// (tests/golden/tokenizer.py), any bytes back and forth, files that are no vocabulary.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "encoding/json.h"
#include "support/paths.h"
#include "text/pretokenize.h"
#include "volta/error.h"
#include "volta/text/tokenizer.h"

namespace volta {
namespace {

namespace fs = std::filesystem;
using text::BPETokenizer;

const fs::path kFolder = fs::path(paths::golden_dir()) / "tokenizer";

BPETokenizer from_two_files() {
  return BPETokenizer::from_files((kFolder / "vocab.json").string(),
                                  (kFolder / "merges.txt").string());
}

struct Sample {
  std::string text;
  std::vector<std::int64_t> ids;
};

const std::vector<Sample>& samples() {
  static const std::vector<Sample> all = [] {
    std::vector<Sample> read;
    std::ifstream file(kFolder / "strings.txt");
    for (std::string line; std::getline(file, line);) {
      const std::size_t tab = line.rfind('\t');
      Sample sample{*io::parse_json(line.substr(0, tab), "strings.txt").as_string(), {}};
      std::istringstream numbers(line.substr(tab + 1));
      for (std::int64_t id; numbers >> id;) sample.ids.push_back(id);
      read.push_back(std::move(sample));
    }
    return read;
  }();
  return all;
}

void expect_agreement(const BPETokenizer& tokenizer) {
  ASSERT_EQ(samples().size(), 1000u);
  for (const Sample& sample : samples()) {
    EXPECT_EQ(tokenizer.encode(sample.text), sample.ids) << io::json_quoted(sample.text);
    EXPECT_EQ(tokenizer.decode(sample.ids), sample.text);
  }
}

TEST(Tokenizer, AgreesWithTheReferenceOnAThousandStrings) { expect_agreement(from_two_files()); }

TEST(Tokenizer, ReadsTokenizerJson) {
  expect_agreement(BPETokenizer::from_pretrained(kFolder.string()));
  const BPETokenizer direct = BPETokenizer::from_pretrained((kFolder / "tokenizer.json").string());
  EXPECT_EQ(direct.encode("Hello, world"), from_two_files().encode("Hello, world"));
}

TEST(Tokenizer, AnyBytesComeBack) {
  const BPETokenizer tokenizer = from_two_files();
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::string bytes(random() % 60, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() % (round % 2 == 0 ? 256 : 8) + 32);
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(bytes)), bytes);
  }
  std::string all(256, '\0');
  for (int byte = 0; byte < 256; ++byte)
    all[static_cast<std::size_t>(byte)] = static_cast<char>(byte);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(all)), all);
  for (const char* cut :
       {"\xE2\x82", "\xF0\x9F\x98", "\xC0\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80"})
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(cut)), cut);
}

TEST(Tokenizer, CutsAsGpt2sPattern) {
  const auto pieces = [](std::string_view text) {
    std::vector<std::string> found;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text::end_of_piece(text, at);
      found.emplace_back(text.substr(at, end - at));
      at = end;
    }
    return found;
  };
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces("I'll  see 3 cats!!\n\n"),
            (Pieces{"I", "'ll", " ", " see", " 3", " cats", "!!", "\n\n"}));
  EXPECT_EQ(pieces("a\n b \t c"), (Pieces{"a", "\n", " b", " \t", " c"}));
  EXPECT_EQ(pieces("don''t'S é½"), (Pieces{"don", "''", "t", "'", "S", " é", "½"}));
}

TEST(Tokenizer, SpecialTokens) {
  const BPETokenizer tokenizer = from_two_files();
  const std::int64_t end = tokenizer.id_of("<|endoftext|>").value();
  EXPECT_TRUE(tokenizer.is_special(end));
  EXPECT_FALSE(tokenizer.is_special(*tokenizer.id_of("e")));
  EXPECT_EQ(tokenizer.encode("<|endoftext|>"), std::vector<std::int64_t>{end});
  const auto as_text = tokenizer.encode("<|endoftext|>", {.special_tokens = false});
  EXPECT_GT(as_text.size(), 1u);
  EXPECT_EQ(tokenizer.decode(as_text), "<|endoftext|>");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a<|endoftext|>b"), {.skip_special_tokens = true}),
            "ab");
  EXPECT_EQ(tokenizer.vocab_size(), 1400);
  EXPECT_FALSE(tokenizer.id_of("no such token").has_value());
}

TEST(Tokenizer, LongPiecesTakeNoSquareOfTheirLength) {
  const BPETokenizer tokenizer = from_two_files();
  const std::string long_word(1 << 20, 'e');
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(long_word)), long_word);
}

// ---- Files that are no vocabulary.

class HostileTokenizer : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const char* name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return (folder_ / name).string();
  }
  static std::string read(const char* name) {
    std::ifstream file(kFolder / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Returns the part of the message after the path.
  static std::string message(const std::function<void()>& fn) {
    try {
      fn();
    } catch (const IoError& error) {
      const std::string what = error.what();
      const std::size_t name = what.rfind("volta_hostile/");
      return name == std::string::npos ? what : what.substr(name + 14);
    }
    return "nothing was thrown";
  }
  std::string message_of_vocab(const std::string& vocab) const {
    const std::string path = write("vocab.json", vocab);
    return message([&] { BPETokenizer::from_files(path, (kFolder / "merges.txt").string()); });
  }
  std::string message_of_merges(const std::string& merges) const {
    const std::string path = write("merges.txt", merges);
    return message([&] { BPETokenizer::from_files((kFolder / "vocab.json").string(), path); });
  }
  std::string message_of_json(const std::string& json) const {
    const std::string path = write("tokenizer.json", json);
    return message([&] { BPETokenizer::from_tokenizer_json(path); });
  }
  static std::string with(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / "volta_hostile";
};

TEST_F(HostileTokenizer, Vocabularies) {
  EXPECT_EQ(message_of_vocab("[1, 2]"), "vocab.json: the vocabulary is no JSON object");
  EXPECT_EQ(message_of_vocab("{}"), "vocab.json: the vocabulary has no token for the byte 0x00");
  EXPECT_EQ(message_of_vocab("{\"a\": 1.5}"),
            "vocab.json: the number of token \"a\" is no integer");
  EXPECT_EQ(message_of_vocab("{\"a\": -1}"),
            "vocab.json: token \"a\" has the number -1, expected is one from 0 to 16777215");
  EXPECT_EQ(
      message_of_vocab("{\"a\": 99999999999}"),
      "vocab.json: token \"a\" has the number 99999999999, expected is one from 0 to 16777215");
  EXPECT_EQ(message_of_vocab("{\"a\": 1, \"b\": 1}"),
            "vocab.json: tokens \"a\" and \"b\" have the number 1");
  EXPECT_EQ(message_of_vocab("{\"a b\": 1}"),
            "vocab.json: token \"a b\": \" \" at byte 1 stands for no byte");
  EXPECT_EQ(message_of_vocab("{\"\": 1}"), "vocab.json: a token is empty");
  EXPECT_NE(message_of_vocab("{\"a\": 1").find("not valid JSON"), std::string::npos);
  EXPECT_NE(message_of_vocab(read("vocab.json").substr(0, 5000)).find("not valid JSON"),
            std::string::npos);
  EXPECT_NE(message_of_vocab("{\"a\":" + std::string(100000, '[')).find("nested deeper"),
            std::string::npos);
  EXPECT_THROW(BPETokenizer::from_files("/nonexistent/vocab.json", "/nonexistent/merges.txt"),
               IoError);
  fs::remove(folder_ / "vocab.json");
  EXPECT_NE(message([&] {
              BPETokenizer::from_pretrained(folder_.string());
            }).find("there is neither tokenizer.json nor vocab.json and merges.txt"),
            std::string::npos);
}

TEST_F(HostileTokenizer, Merges) {
  EXPECT_EQ(message_of_merges("#version: 0.2\nh e\nab\n"),
            "merges.txt, line 3: \"ab\" is not a pair of tokens");
  EXPECT_EQ(message_of_merges("a b c\n"), "merges.txt, line 1: \"a b c\" is not a pair of tokens");
  EXPECT_NE(message_of_merges("h e\nh e\n").find("merge 2: \"h\" and \"e\" are joined before"),
            std::string::npos);
  EXPECT_NE(message_of_merges("z q\n").find("merge 1: \"zq\" is not in the vocabulary"),
            std::string::npos);
  EXPECT_EQ(message_of_merges("h e\r\n\r\n"), "nothing was thrown");
}

TEST_F(HostileTokenizer, TokenizerJson) {
  const std::string good = read("tokenizer.json");
  EXPECT_EQ(message_of_json(good), "nothing was thrown");
  EXPECT_EQ(message_of_json("[]"), "tokenizer.json: the file is no JSON object");
  EXPECT_EQ(message_of_json("{}"), "tokenizer.json: there is no \"pre_tokenizer\"");
  EXPECT_EQ(message_of_json(with(good, "\"normalizer\":null", "\"normalizer\":{\"type\":\"NFC\"}")),
            "tokenizer.json: \"normalizer\" is not supported");
  EXPECT_EQ(message_of_json(with(good, "\"type\":\"ByteLevel\"", "\"type\":\"Whitespace\"")),
            "tokenizer.json: pre_tokenizer is \"Whitespace\", only \"ByteLevel\" is supported");
  EXPECT_EQ(message_of_json(with(good, "\"type\":\"BPE\"", "\"type\":\"WordPiece\"")),
            "tokenizer.json: model is \"WordPiece\", only \"BPE\" is supported");
  EXPECT_EQ(message_of_json(with(good, "\"byte_fallback\":false", "\"byte_fallback\":true")),
            "tokenizer.json: \"byte_fallback\" is not supported");
  EXPECT_EQ(message_of_json(with(good, "\"lstrip\":false", "\"lstrip\":true")),
            "tokenizer.json: \"lstrip\" is not supported");
  EXPECT_EQ(message_of_json(with(good, "[\"h\",\"e\"]", "[\"h\",\"e\",\"e\"]")),
            "tokenizer.json: an entry of model.merges is not a pair of tokens");
  EXPECT_EQ(message_of_json(with(good, "\"use_regex\":true", "\"use_regex\":7")),
            "tokenizer.json: \"use_regex\" is neither true nor false");
}

TEST_F(HostileTokenizer, OlderFilesAndPrefixes) {
  const std::string good = read("tokenizer.json");
  const auto load = [&](const std::string& json) {
    return BPETokenizer::from_tokenizer_json(write("tokenizer.json", json));
  };
  EXPECT_EQ(load(with(good, "[\"h\",\"e\"]", "\"h e\"")).encode("the heath"),
            from_two_files().encode("the heath"));
  const BPETokenizer prefixed =
      load(with(good, "\"add_prefix_space\":false", "\"add_prefix_space\":true"));
  EXPECT_EQ(prefixed.encode("the king"), from_two_files().encode(" the king"));
}

TEST(Tokenizer, NumbersThatAreNoTokens) {
  const std::vector<std::int64_t> ids = {5, 1400};
  try {
    from_two_files().decode(ids);
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(), "decode: 1400 is not a token; there are 1400");
  }
}

}  // namespace
}  // namespace volta
