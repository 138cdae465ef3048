// Character corpora, token files, and windows of both.
#include "volta/data/text.h"

#include <set>

#include "data/data_testing.h"
#include "support/test_device.h"
#include "volta/data.h"
#include "volta/volta.h"

using namespace volta;
using namespace volta::data_testing;

TEST(CharCorpus, NumbersItsCharacters) {
  const auto corpus = data::CharCorpus::from_text("hello, world\xC3\xA9");
  EXPECT_EQ(corpus.characters(), " ,dehlorw\xA9\xC3");
  EXPECT_EQ(corpus.vocab_size(), 11);
  EXPECT_EQ(corpus.size(), 14);
  const auto tokens = corpus.encode("role\xC3");
  EXPECT_EQ(tokens, (std::vector<std::int64_t>{7, 6, 5, 3, 10}));
  EXPECT_EQ(corpus.decode(tokens), "role\xC3");
  EXPECT_EQ(corpus.tokens()[0], 4);
  expect_error<ArgumentError>([&] { corpus.encode("hex"); }, {"character 0x78 at 2 is not in"});
  expect_error<ArgumentError>([&] { corpus.decode(std::vector<std::int64_t>{11}); },
                              {"token 11 of a vocabulary of 11"});
  expect_error<ArgumentError>([] { data::CharCorpus::from_text(""); }, {"the text is empty"});
  const Folder folder;
  EXPECT_EQ(data::CharCorpus::from_file(folder.write("t.txt", "abc")).size(), 3);
  expect_error<IoError>([&] { data::CharCorpus::from_file(folder.write("e.txt", "")); },
                        {"e.txt: the file is empty"});
  expect_error<IoError>([&] { data::CharCorpus::from_file(folder / "none"); }, {"cannot open"});
}

TEST(CharCorpus, BatchesAreRandomWindows) {
  const auto corpus = data::CharCorpus::from_text("abcdefghijklmnopqrstuvwxyz");
  manual_seed(1);
  const Device device = test_device();
  auto [x, y] = corpus.batch({.batch_size = 64, .length = 5, .device = device});
  EXPECT_EQ(x.shape(), (Shape{64, 5}));
  EXPECT_EQ(x.device(), device);
  const auto from = x.to_vector<std::int64_t>(), to = y.to_vector<std::int64_t>();
  std::set<std::int64_t> starts;
  for (std::size_t row = 0; row < 64; ++row) {
    starts.insert(from[row * 5]);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(from[row * 5 + i], from[row * 5] + static_cast<std::int64_t>(i));
      EXPECT_EQ(to[row * 5 + i], from[row * 5 + i] + 1);
    }
  }
  EXPECT_GT(starts.size(), 12u);
  EXPECT_LE(*starts.rbegin(), 20);  // the following token is inside the text
  auto second = corpus.batch({.batch_size = 64, .length = 5});
  EXPECT_NE(second.x.to_vector<std::int64_t>(), from);
  manual_seed(1);
  EXPECT_EQ(corpus.batch({.batch_size = 64, .length = 5}).x.to_vector<std::int64_t>(), from);
  const Generator own(7);
  const GeneratorState before = Generator().state();
  const auto drawn =
      corpus.batch({.batch_size = 8, .length = 5, .generator = own}).x.to_vector<std::int64_t>();
  EXPECT_EQ(Generator().state(), before);
  EXPECT_EQ(corpus.batch({.batch_size = 8, .length = 5, .generator = Generator(7)})
                .x.to_vector<std::int64_t>(),
            drawn);
  // The longest window has a single position.
  EXPECT_EQ(corpus.batch({.batch_size = 1, .length = 25}).x.to_vector<std::int64_t>()[0], 0);
  expect_error<ArgumentError>([&] { corpus.batch({.batch_size = 1, .length = 26}); },
                              {"windows of 26 and what follows do not fit into 26 tokens"});
  expect_error<ArgumentError>([&] { corpus.batch({.batch_size = 1}); }, {"a length of 0"});
  expect_error<ArgumentError>([&] { corpus.batch({.batch_size = 0, .length = 2}); },
                              {"a batch size of 0"});
}

TEST(CharCorpus, SplitsKeepTheVocabulary) {
  const auto [train, valid] = data::CharCorpus::from_text("aaaaaaaabz").split(0.8);
  EXPECT_EQ(train.size(), 8);
  EXPECT_EQ(valid.size(), 2);
  EXPECT_EQ(valid.vocab_size(), 3);
  EXPECT_EQ(valid.tokens()[1], 2);
  expect_error<IndexError>([&, &held = valid] { held.tokens()[2]; }, {"token 2 of 2"});
}

TEST(CharCorpus, TheEmbeddedTextTrainsAToy) {
  const auto corpus = data::CharCorpus::from_text(data::embedded_text());
  EXPECT_GT(corpus.size(), 20000);
  EXPECT_GT(corpus.vocab_size(), 50);
  EXPECT_LT(corpus.vocab_size(), 96);
  EXPECT_EQ(corpus.decode(corpus.encode("ROMEO:")), "ROMEO:");
  for (const char c : data::embedded_text()) EXPECT_TRUE(c == '\n' || (c >= ' ' && c < 127));
}

TEST(Tokens, FilesOfNumbers) {
  const Folder folder;
  const std::string path = folder.write("t.bin", raw({1, 0, 0, 1, 255, 255, 3, 0}));
  const auto u16 = data::Tokens::from_file(path, data::Tokens::Width::u16);
  EXPECT_EQ(u16.size(), 4);
  EXPECT_EQ(u16[1], 256);
  EXPECT_EQ(u16[2], 65535);
  const auto u32 = data::Tokens::from_file(path, data::Tokens::Width::u32);
  EXPECT_EQ(u32.size(), 2);
  EXPECT_EQ(u32[1], 0x3FFFF);
  EXPECT_EQ(u16.slice(1, 3)[1], 65535);
  const auto bounded = data::Tokens::from_file(path, data::Tokens::Width::u16, 300);
  EXPECT_EQ(bounded[1], 256);
  expect_error<IoError>([&] { bounded.batch({.batch_size = 1, .length = 3}); },
                        {"t.bin: token 65535 at 2 is not below the vocabulary's 300"});
  expect_error<IoError>(
      [&] { data::Tokens::from_file(folder.write("odd.bin", "abc"), data::Tokens::Width::u16); },
      {"odd.bin: 3 bytes are no whole number of tokens of 2"});
  expect_error<IndexError>([&] { u16[4]; }, {"token 4 of 4"});
  expect_error<IndexError>([&] { u16.slice(2, 5); }, {"from 2 to 5 of 4"});
  expect_error<ArgumentError>([] { data::Tokens::from_values(std::vector<std::int64_t>{-1}); },
                              {"-1 is no token"});
}

TEST(Tokens, WindowsAreADataset) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < 10; ++i) values.push_back(i * 1000);
  const auto tokens = data::Tokens::from_values(values);
  const auto windows = tokens.windows(3);
  EXPECT_EQ(windows.size(), 3);
  data::DataLoader loader(windows, {.batch_size = 2, .device = test_device()});
  std::vector<std::vector<std::int64_t>> x, y;
  for (auto [from, to] : loader) {
    x.push_back(from.to_vector<std::int64_t>());
    y.push_back(to.to_vector<std::int64_t>());
  }
  EXPECT_EQ(x[0], (std::vector<std::int64_t>{0, 1000, 2000, 3000, 4000, 5000}));
  EXPECT_EQ(y[1], (std::vector<std::int64_t>{7000, 8000, 9000}));
  EXPECT_EQ(tokens.windows(3, 1).size(), 7);
  EXPECT_EQ(tokens.windows(3, 1).get(6).y.to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{7000, 8000, 9000}));
  expect_error<ArgumentError>([&] { tokens.windows(10); }, {"do not fit into 10 tokens"});
  expect_error<ArgumentError>([&] { tokens.windows(2, -1); }, {"a stride of -1"});
}
