// StateDictMapper: each rule, the order of rules, and unused rules.
#include "volta/io/state_dict_mapper.h"

#include <gtest/gtest.h>

#include "io/io_files.h"
#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

std::vector<std::string> names_of(const StateDict& state) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state) names.push_back(name);
  return names;
}

StateDict named(std::initializer_list<const char*> names) {
  StateDict state;
  for (const char* name : names) state.add(name, ones({2, 3}));
  return state;
}

using Names = std::vector<std::string>;

TEST(StateDictMapper, RenamesByNameAndByExpression) {
  const StateDict mapped = StateDictMapper()
                               .rename("wte", "embedding")
                               .rename(NamePattern::regex(R"(^h\.(\d+)\.)"),
                                       "blocks.$1.")(named({"wte", "h.0.w", "h.12.w", "wte.more"}));
  EXPECT_EQ(names_of(mapped), (Names{"embedding", "blocks.0.w", "blocks.12.w", "wte.more"}));
}

TEST(StateDictMapper, StripsAndPrefixes) {
  EXPECT_EQ(names_of(StateDictMapper().strip("module.").prefix("net.")(
                named({"module.a", "b", "module.module.c"}))),
            (Names{"net.a", "net.b", "net.module.c"}));
}

TEST(StateDictMapper, SelectsAndExcludes) {
  const MappedState mapped = StateDictMapper()
                                 .select(NamePattern::regex("^encoder\\."))
                                 .exclude(NamePattern::regex("bias$"))
                                 .map(named({"encoder.w", "encoder.bias", "decoder.w"}));
  EXPECT_EQ(names_of(mapped.state), Names{"encoder.w"});
  EXPECT_EQ(mapped.dropped, (Names{"encoder.bias", "decoder.w"}));
}

TEST(StateDictMapper, TransposesAndTransforms) {
  const Device device = test_device();
  const StateDict state{
      {"linear.weight", from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3}, {.device = device})},
      {"conv", arange(24, {.device = device}).reshape({2, 3, 4})},
      {"scale", full({1}, 4, {.device = device})}};
  const StateDict mapped = StateDictMapper()
                               .transpose("linear.weight")
                               .transpose("conv", 0, 2)
                               .transform("scale", [](const Tensor& x) { return x * 0.5; })(state);
  EXPECT_EQ(mapped.at("linear.weight").to_vector<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(mapped.at("conv").shape(), (Shape{4, 3, 2}));
  EXPECT_EQ(mapped.at("scale").item(), 2);
  EXPECT_EQ(mapped.at("scale").device(), device);
  EXPECT_EQ(state.at("scale").item(), 4);
}

TEST(StateDictMapper, ReportsWhatItDidAndWhatWasNotUsed) {
  StateDictMapper mapper;
  mapper.rename("a", "b").rename("a", "c").strip("x.").exclude(NamePattern::regex("^q"));
  const MappedState mapped = mapper.map(named({"a", "z"}));
  EXPECT_EQ(mapped.renamed, (std::vector<std::pair<std::string, std::string>>{{"a", "b"}}));
  EXPECT_EQ(mapped.unused_rules,
            (Names{R"(rename("a", "c"))", R"(strip("x."))", R"(exclude(regex "^q"))"}));
  Names warned;
  set_log_handler([&](LogLevel, std::string_view message) { warned.emplace_back(message); });
  mapper(named({"a"}));
  set_log_handler({});
  ASSERT_EQ(warned.size(), 3u);
  EXPECT_EQ(warned[1], R"(StateDictMapper: strip("x.") matched no tensor)");
}

TEST(StateDictMapper, MistakesAreNamed) {
  EXPECT_EQ(problem_of([] { StateDictMapper().rename("a", "b")(named({"a", "b"})); }),
            "StateDictMapper: 'a' and 'b' would both be 'b'");
  EXPECT_EQ(problem_of([] { StateDictMapper().transpose("a", 0, 2)(named({"a"})); }),
            "StateDictMapper: transpose: 'a' [2, 3] has no axes 0 and 2");
  EXPECT_TRUE(problem_of([] {
                NamePattern::regex("((");
              }).starts_with("NamePattern: '((' is no regular expression: "));
  EXPECT_EQ(problem_of([] { StateDictMapper().transform("a", nullptr); }),
            "StateDictMapper: transform: there is no function");
  EXPECT_EQ(problem_of([] {
              StateDictMapper().transform("a",
                                          [](const Tensor&) { return Tensor(); })(named({"a"}));
            }),
            "StateDictMapper: transform: 'a' became undefined");
}

// GPT-2's linear layers in the Hugging Face layout are [in, out].
TEST(StateDictMapper, AModelLoadsThroughIt) {
  manual_seed(3);
  nn::Sequential model({{"fc1", nn::Linear(2, 3)}, {"fc2", nn::Linear(3, 1)}});
  StateDict theirs;
  for (const auto& [name, tensor] : model.state_dict())
    theirs.add("transformer." + name, tensor.rank() == 2 ? tensor.t() : tensor);
  theirs.add("transformer.fc1.mask", ones({1}));
  manual_seed(4);
  nn::Sequential other({{"fc1", nn::Linear(2, 3)}, {"fc2", nn::Linear(3, 1)}});
  other.load_state_dict(StateDictMapper()
                            .strip("transformer.")
                            .exclude("fc1.mask")
                            .transpose(NamePattern::regex("weight$"))(theirs));
  for (const auto& [name, tensor] : model.state_dict())
    EXPECT_EQ(other.state_dict().at(name).to_vector<float>(), tensor.to_vector<float>()) << name;
}

}  // namespace
}  // namespace volta
