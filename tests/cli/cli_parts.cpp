// Parts that commands share: suggestions, patterns, tables, text for terminals.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sstream>
#include <string>
#include <vector>

#include "cli_program.h"
#include "glob.h"
#include "output/nearest.h"
#include "output/table.h"
#include "output/terminal.h"
#include "output/units.h"
#include "output/utf8.h"

namespace volta::cli {
namespace {

std::string utf8(char32_t code) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x800) return {static_cast<char>(0xc0 | code >> 6), tail(0)};
  if (code < 0x10000) return {static_cast<char>(0xe0 | code >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xf0 | code >> 18), tail(12), tail(6), tail(0)};
}

TEST(CliParts, EditDistance) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("inpsect", "inspect"), 1U);  // neighbours exchanged
  EXPECT_EQ(edit_distance("INFO", "info"), 0U);
}

TEST(CliParts, TheNearestNameIsSuggestedIfItIsNear) {
  const std::vector<std::string> commands = {"info", "inspect", "compare", "convert", "cache"};
  EXPECT_EQ(nearest("inspekt", commands), "inspect");
  EXPECT_EQ(nearest("comp", commands), "compare");
  EXPECT_EQ(nearest("covnert", commands), "convert");
  EXPECT_EQ(nearest("inf", commands), "info");
  EXPECT_EQ(nearest("train", commands), std::nullopt);
  EXPECT_EQ(nearest("", commands), std::nullopt);
  EXPECT_EQ(nearest("x", {}), std::nullopt);
  EXPECT_EQ(nearest(std::string(100'000, 'a'), {std::string(100'000, 'b')}), std::nullopt);
  EXPECT_EQ(suggestion("cahce", commands), "; did you mean 'cache'?");
  EXPECT_EQ(suggestion("zzz", commands), "");
}

TEST(CliParts, Globs) {
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("conv?.weight", "conv1.weight"));
  EXPECT_FALSE(glob_matches("conv?.weight", "conv10.weight"));
  EXPECT_TRUE(glob_matches("*.weight", "a.b.weight"));
  EXPECT_FALSE(glob_matches("*.weight", "a.weight.b"));
  EXPECT_TRUE(glob_matches("h.[0-3].*", "h.2.attn"));
  EXPECT_FALSE(glob_matches("h.[!0-3].*", "h.2.attn"));
  EXPECT_TRUE(glob_matches("a[b", "a[b"));  // an unclosed set stands for itself
  EXPECT_TRUE(glob_matches("a**b", "ab"));
  // A pattern that would take a backtracking matcher years.
  EXPECT_FALSE(glob_matches("*a*a*a*a*a*a*a*a*b", std::string(5000, 'a')));
}

TEST(CliParts, GlobsAndTheirExpressionsAgree) {
  const std::vector<std::string> names = {"",          "a",   "a.b",  "a+b",  "h.2.attn",
                                          "h.12.attn", "(x)", "a[b",  "a\nb", "a^b",
                                          "$",         "x/y", "a\\b", "a]b"};
  for (const char* pattern : {"*", "a.b", "a?b", "h.[0-9].*", "h.[!3].*", "(x)", "a[b", "a[+.]b",
                              "$*", "*/*", "a[\\^]b", "?"}) {
    const NamePattern expression = glob_pattern(pattern);
    for (const std::string& name : names)
      EXPECT_EQ(expression.matches(name), glob_matches(pattern, name)) << pattern << " " << name;
  }
}

TEST(CliParts, RenamingByGlob) {
  const auto renamed = [](const char* from, const char* to, const char* name) {
    return glob_pattern(from).replaced(name, glob_replacement(to));
  };
  EXPECT_EQ(renamed("h.*.attn.*", "blocks.*.attention.*", "h.3.attn.bias"),
            "blocks.3.attention.bias");
  EXPECT_EQ(renamed("h.*1", "x*0", "h.71"), "x70");  // not group 10
  EXPECT_EQ(renamed("*", "$1&*", "a"), "$1&a");
}

TEST(CliParts, SizesForPeople) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(1048575), "1.0 MiB");  // not 1024.0 KiB
  EXPECT_EQ(human_bytes(UINT64_MAX), "16.0 EiB");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(1234567), "1,234,567");
  EXPECT_EQ(human_rate(4.8e12, "B"), "4.8 TB/s");
  EXPECT_EQ(human_rate(0, "B"), "");
  EXPECT_EQ(plural(1, "tensor"), "1 tensor");
  EXPECT_EQ(plural(1024, "tensor"), "1,024 tensors");
}

TEST(CliParts, TextOfUnknownOriginCannotWriteToTheTerminal) {
  Terminal plain, unicode;
  unicode.unicode = true;
  EXPECT_EQ(printable("a\x1b[31mb\n", unicode), "a\\x1b[31mb\\x0a");
  EXPECT_EQ(printable("é", unicode), "é");
  EXPECT_EQ(printable("é", plain), "\\xc3\\xa9");
  EXPECT_EQ(printable("\xc3", unicode), "\\xc3");                    // truncated
  EXPECT_EQ(printable("\xc0\xaf", unicode), "\\xc0\\xaf");           // an overlong form
  EXPECT_EQ(printable("\xed\xa0\x80", unicode), "\\xed\\xa0\\x80");  // half of a surrogate pair
  EXPECT_EQ(printable("\xe2\x80\xae", unicode), "\\xe2\\x80\\xae");  // reverses the text direction
  // Direction marks, zero-width characters and two-byte control characters must not reach a
  // terminal.
  for (const char32_t code :
       {0x85, 0x9b, 0xad, 0x34f, 0x61c, 0x115f, 0x180e, 0x200b, 0x200d, 0x200e, 0x202a, 0x2066,
        0x2069, 0x3164, 0xfe0f, 0xfeff, 0xfffa, 0xe0041}) {
    const std::string shown = printable("a" + utf8(code) + "b", unicode);
    EXPECT_TRUE(shown.starts_with("a\\x") && shown.ends_with("b")) << shown;
  }
  for (const char32_t code :
       {0xe9, 0x3b1, 0x5d0, 0x627, 0x4e2d, 0x1f600})  // letters of scripts in both directions
    EXPECT_EQ(printable(utf8(code), unicode), utf8(code));
}

TEST(CliParts, HiddenCharactersAreNumbersInJson) {
  const std::string name = "a" + utf8(0x9b) + "2J" + utf8(0x202e) + utf8(0xe0041) + "é\x7f";
  const std::string text = with_hidden_escaped(nlohmann::json{{"name", name}}.dump(2));
  EXPECT_EQ(text, "{\n  \"name\": \"a\\u009b2J\\u202e\\udb40\\udc41é\\u007f\"\n}");
  EXPECT_EQ(nlohmann::json::parse(text)["name"], name);
}

TEST(CliParts, ShorteningAndWrapping) {
  set_locale();
  Terminal plain;
  EXPECT_EQ(shortened("abcdef", 6, plain), "abcdef");
  EXPECT_EQ(shortened("abcdef", 4, plain), "abc~");
  EXPECT_EQ(shortened("abcdef", 0, plain), "");
  EXPECT_EQ(wrapped("one two three", 7, 0), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", 9, 2), "one two\n  three");
  EXPECT_EQ(wrapped("unbreakable", 4, 0), "unbreakable");
}

TEST(CliParts, TablesFit) {
  Table table({{.title = "name", .importance = 3, .shortens = true},
               {.title = "dtype", .importance = 1},
               {.title = "size", .align = Align::right, .importance = 2}});
  table.add({"transformer.h.0.attn.c_attn.weight", "bf16", "1.5 KiB"});
  table.add({"b", "f32", "600 B"});
  const auto text = [&](int columns) {
    Terminal terminal;
    terminal.wraps = columns > 0;
    terminal.columns = columns;
    std::ostringstream out;
    table.print(out, terminal);
    return out.str();
  };
  EXPECT_EQ(text(0),
            "name                                dtype     size\n"
            "transformer.h.0.attn.c_attn.weight  bf16   1.5 KiB\n"
            "b                                   f32      600 B\n");
  EXPECT_EQ(text(30),
            "name            dtype     size\n"
            "transformer.h~  bf16   1.5 KiB\n"
            "b               f32      600 B\n");
  EXPECT_EQ(text(20),
            "name            size\n"
            "transforme~  1.5 KiB\n"
            "b              600 B\n");
  EXPECT_EQ(text(10),
            "name\n"
            "transform~\n"
            "b\n");
}

}  // namespace
}  // namespace volta::cli
