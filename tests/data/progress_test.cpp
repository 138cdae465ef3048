// Progress: lines without a terminal, a bar on a terminal.
#include "volta/data/progress.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "volta/data.h"
#include "volta/volta.h"

using volta::progress;

TEST(Progress, OneLineAtTheEndOfAShortLoop) {
  std::ostringstream out;
  const std::vector<int> items{1, 2, 3};
  int sum = 0;
  for (const int item : progress(items, "adding", {.out = &out})) sum += item;
  EXPECT_EQ(sum, 6);
  const std::string text = out.str();
  EXPECT_TRUE(text.starts_with("adding  100%  3/3  ")) << text;
  EXPECT_TRUE(text.ends_with("  in 0:00\n")) << text;
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(Progress, LinesAtIntervalsWithTimeLeftAndText) {
  std::ostringstream out;
  std::vector<int> items(4);
  auto bar = progress(items, "epoch 1", {.out = &out, .line_seconds = 0});
  int step = 0;
  for ([[maybe_unused]] int& item : bar) {
    item = 1;
    bar.set_text("loss 0." + std::to_string(step++));
  }
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5);
  EXPECT_TRUE(text.starts_with("epoch 1   25%  1/4  ")) << text;
  EXPECT_NE(text.find(" left  loss 0.0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("loss 0.3\n"), std::string::npos) << text;
  EXPECT_EQ(items, std::vector<int>(4, 1));
}

TEST(Progress, ABarOnATerminal) {
  std::ostringstream out;
  {
    const std::vector<int> items(4);
    for ([[maybe_unused]] const int item :
         progress(items, "", {.out = &out, .terminal = true, .terminal_seconds = 0})) {
      if (out.str().find("50%") != std::string::npos) break;
    }
  }
  const std::string text = out.str();
  EXPECT_NE(text.find("\r\x1b[K[======                  ]  25%  1/4  "), std::string::npos) << text;
  EXPECT_NE(text.find("[============            ]  50%  2/4  "), std::string::npos) << text;
  EXPECT_EQ(text.find("75%"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\n")) << text;  // a loop that is left early ends its line
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

// On a terminal of 80 columns the text takes precedence over the bar.
TEST(Progress, ABarTakesWhatTheWordsLeave) {
  const auto shown = [](std::size_t words) {
    std::ostringstream out;
    {
      volta::ProgressBar bar("x", 10, {.out = &out, .terminal = true});
      bar.set_text(std::string(words, 'w'));
      bar.advance(10);
    }
    const std::string text = out.str();
    return text.substr(text.rfind('\r'));
  };
  const auto width = [](const std::string& line) {
    return static_cast<int>(std::count(line.begin(), line.end(), '='));
  };
  EXPECT_EQ(width(shown(4)), 24);
  const int narrow = width(shown(34));
  EXPECT_GE(narrow, 6);
  EXPECT_LT(narrow, 24);
  EXPECT_EQ(width(shown(50)), 0);
  EXPECT_NE(shown(50).find(std::string(40, 'w')), std::string::npos);
}

TEST(Progress, UnknownLengthsAndSilence) {
  std::ostringstream out;
  {
    volta::ProgressBar bar("rows", std::nullopt, {.out = &out});
    bar.advance(5);
    volta::ProgressBar moved = std::move(bar);
    moved.advance();
  }
  EXPECT_TRUE(out.str().starts_with("rows  6  ")) << out.str();
  EXPECT_EQ(out.str().find('%'), std::string::npos);
  std::ostringstream nothing;
  const std::vector<int> items(3);
  int count = 0;
  for ([[maybe_unused]] const int item : progress(items, "x", {.out = &nothing, .enabled = false}))
    ++count;
  EXPECT_EQ(count, 3);
  EXPECT_TRUE(nothing.str().empty());
}

TEST(Progress, ALoaderThatResumesBeginsWhereItStands) {
  const auto make = [] {
    return volta::data::DataLoader(volta::data::TensorDataset(volta::zeros({8, 1})),
                                   {.batch_size = 2, .seed = 1});
  };
  auto loader = make();
  for (auto [x, y] : loader)
    if (loader.position() == 3) break;
  auto resumed = make();
  resumed.load_state_dict(loader.state_dict());
  std::ostringstream out;
  for (auto [x, y] : progress(resumed, "", {.out = &out, .line_seconds = 0}))
    EXPECT_TRUE(x.defined());
  EXPECT_TRUE(out.str().starts_with("100%  4/4")) << out.str();
}
