// Loading and saving state dicts: mapped memory, shards, atomic replacement, other devices.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>

#include "io/io_files.h"
#include "io/safetensors/shards.h"
#include "support/resident_memory.h"
#include "support/test_device.h"
#include "volta/io/checkpoint.h"
#include "volta/io/npy.h"
#include "volta/safetensors.h"
#include "volta/volta.h"

namespace volta {
namespace {

namespace fs = std::filesystem;

using Files = TemporaryFolder;

TEST_F(Files, HalfAGigabyteMapsWithoutACopyUntilItIsUsed) {
  constexpr std::int64_t kRows = 128, kColumns = 1 << 20;  // 512 MiB of f32
  const std::string header = R"({"w":{"dtype":"F32","shape":[128,1048576],"data_offsets":[0,)" +
                             std::to_string(kRows * kColumns * 4) + "]}}";
  const std::string file = put("big.safetensors", safetensors_bytes(header));
  fs::resize_file(file, 8 + header.size() + kRows * kColumns * 4);  // sparse: zeros
  ones({1}).eval();                                                 // the CPU backend is there
  const std::uint64_t before = resident_bytes();
  const std::uint64_t in_use = memory_stats(Device::cpu()).in_use;
  const Counters counted = counters();
  std::optional<StateDict> state = load(file, {.mapped = true});
  EXPECT_LT(resident_bytes(), before + (std::uint64_t{8} << 20));
  EXPECT_EQ(memory_stats(Device::cpu()).in_use, in_use);
  EXPECT_EQ(counters().allocations, counted.allocations);
  EXPECT_EQ(counters().transfers, counted.transfers);

  // One row is read: that much comes in, and stays valid without the state dict.
  const Tensor row = state->at("w").narrow(0, 7, 1);
  state.reset();
  EXPECT_EQ(row.sum().item(), 0);
  EXPECT_LT(resident_bytes(), before + (std::uint64_t{64} << 20));
}

TEST_F(Files, TheMappingLivesAsLongAsItsTensors) {
  save({{"a", from_vector<float>({1, 2, 3})}, {"b", from_vector<float>({4})}}, path("m"));
  const auto is_mapped = [&] {
    std::ifstream maps("/proc/self/maps");
    const std::string text{std::istreambuf_iterator<char>(maps), {}};
    return text.find(path("m")) != std::string::npos;
  };
  Tensor a, sum;
  {
    const StateDict state = load(path("m"), {.mapped = true});
    a = state.at("a");
  }
  EXPECT_TRUE(is_mapped());
  fs::remove(path("m"));
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{1, 2, 3}));
  a += 1;  // memory of its own: the file is read-only
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{2, 3, 4}));
  EXPECT_FALSE(is_mapped());
}

// Elements need not be aligned in files of others.
TEST_F(Files, MisalignedTensorsAreCopied) {
  std::string data(7, '\0');
  const float value = 2.5f;
  std::memcpy(data.data() + 1, &value, 4);
  data[0] = 9;
  data[6] = 1;
  const std::string file =
      put("m", safetensors_bytes(R"({"u":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                 R"("f":{"dtype":"F32","shape":[],"data_offsets":[1,5]},)"
                                 R"("b":{"dtype":"BOOL","shape":[2],"data_offsets":[5,7]}})",
                                 data));
  const StateDict state = load(file);
  EXPECT_EQ(state.at("u").item(), 9);
  EXPECT_EQ(state.at("f").item(), 2.5);
  EXPECT_EQ(state.at("b").to_vector<bool>(), (std::vector<bool>{false, true}));
}

TEST_F(Files, WrittenTensorsAreAligned) {
  save({{"flag", from_vector<std::uint8_t>({1}, {.dtype = DType::boolean})},
        {"half", ones({3}, {.dtype = DType::bf16})},
        {"word", ones({1}, {.dtype = DType::f32})},
        {"long", ones({1}, {.dtype = DType::i64})}},
       path("m"));
  const SafetensorsFile file(path("m"));
  std::vector<std::string> names;
  for (const TensorEntry& entry : file.tensors()) {
    names.push_back(entry.name);
    EXPECT_EQ(entry.offset % size_of(entry.dtype), 0u) << entry.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"long", "word", "half", "flag"}));
}

TEST_F(Files, ABoolThatIsNeitherIsRefused) {
  const std::string file =
      put("m", safetensors_bytes(R"({"b":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})",
                                 std::string("\1\2")));
  EXPECT_EQ(problem_of([&] { load(file); }), file + ": tensor \"b\": a BOOL is neither 0 nor 1");
}

// A file of one tensor of these elements.
template <class T>
std::string one_tensor(const std::string& dtype, const std::vector<T>& values) {
  const std::size_t bytes = values.size() * sizeof(T);
  std::string data(bytes, '\0');
  std::memcpy(data.data(), values.data(), bytes);
  return safetensors_bytes(R"({"t":{"dtype":")" + dtype + R"(","shape":[)" +
                               std::to_string(values.size()) + R"(],"data_offsets":[0,)" +
                               std::to_string(bytes) + "]}}",
                           data);
}

TEST_F(Files, IntegersThatVoltaDoesNotHaveAreWidened) {
  for (const Device device : {Device::cpu(), test_device()}) {
    const auto loaded = [&]<class T>(const std::string& dtype, const std::vector<T>& values) {
      return load(put("m", one_tensor(dtype, values)), {.device = device}).at("t");
    };
    const Tensor i8 = loaded("I8", std::vector<std::int8_t>{-128, -1, 0, 127});
    EXPECT_EQ(i8.dtype(), DType::i32);
    EXPECT_EQ(i8.device(), device);
    EXPECT_EQ(i8.to_vector<std::int32_t>(), (std::vector<std::int32_t>{-128, -1, 0, 127}));
    const Tensor i16 = loaded("I16", std::vector<std::int16_t>{-32768, 32767});
    EXPECT_EQ(i16.dtype(), DType::i32);
    EXPECT_EQ(i16.to_vector<std::int32_t>(), (std::vector<std::int32_t>{-32768, 32767}));
    const Tensor u16 = loaded("U16", std::vector<std::uint16_t>{0, 65535});
    EXPECT_EQ(u16.dtype(), DType::i32);
    EXPECT_EQ(u16.to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 65535}));
    const Tensor u32 = loaded("U32", std::vector<std::uint32_t>{1, 4294967295u});
    EXPECT_EQ(u32.dtype(), DType::i64);
    EXPECT_EQ(u32.to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 4294967295}));
    const Tensor u64 = loaded("U64", std::vector<std::uint64_t>{7, INT64_MAX});
    EXPECT_EQ(u64.dtype(), DType::i64);
    EXPECT_EQ(u64.to_vector<std::int64_t>(), (std::vector<std::int64_t>{7, INT64_MAX}));
    EXPECT_EQ(problem_of([&] { loaded("U64", std::vector<std::uint64_t>{1u, 1ull << 63}); }),
              path("m") + ": tensor \"t\": the U64 9223372036854775808 exceeds the largest i64");
  }
}

// Every value of eight bits, against the formats' definitions and a few known ones.
TEST_F(Files, FloatsOfEightBitsAreWidenedExactly) {
  std::vector<std::uint8_t> all(256);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint8_t>(i);
  const auto e5m2 = load(put("m", one_tensor("F8_E5M2", all))).at("t").to_vector<float>();
  // E5M2 is the upper half of an f16.
  std::vector<std::uint16_t> halves;
  for (const std::uint8_t bits : all) halves.push_back(static_cast<std::uint16_t>(bits << 8));
  const auto f16 =
      from_blob(halves.data(), {256}, DType::f16, {.copy = true}).to(DType::f32).to_vector<float>();
  for (std::size_t i = 0; i < 256; ++i) {
    EXPECT_TRUE(e5m2[i] == f16[i] || (std::isnan(e5m2[i]) && std::isnan(f16[i]))) << i;
    EXPECT_EQ(std::signbit(e5m2[i]), i >= 128) << i;
  }
  const auto e4m3 = load(put("m", one_tensor("F8_E4M3", all))).at("t").to_vector<float>();
  const std::pair<std::size_t, float> known[] = {{0x00, 0.0f},    {0x01, 0x1p-9f}, {0x07, 0x7p-9f},
                                                 {0x08, 0x1p-6f}, {0x38, 1.0f},    {0x39, 1.125f},
                                                 {0x40, 2.0f},    {0x77, 240.0f},  {0x78, 256.0f},
                                                 {0x7E, 448.0f},  {0xB8, -1.0f},   {0xFE, -448.0f}};
  for (const auto& [bits, value] : known) EXPECT_EQ(e4m3[bits], value) << bits;
  EXPECT_TRUE(std::isnan(e4m3[0x7F]) && std::isnan(e4m3[0xFF]));
  EXPECT_EQ(std::ranges::count_if(e4m3, [](float x) { return std::isnan(x); }), 2);
  EXPECT_TRUE(std::ranges::is_sorted(e4m3.begin(), e4m3.begin() + 0x7F));
}

TEST_F(Files, TensorsThatCannotBeReadAreNamed) {
  const std::string file =
      put("m", safetensors_bytes(R"({"a":{"dtype":"F33","shape":[7],"data_offsets":[0,1]},)"
                                 R"("b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},)"
                                 R"("c":{"dtype":"F4","shape":[2],"data_offsets":[2,3]}})",
                                 "123"));
  const StateDict state = load(file);
  EXPECT_EQ(state.size(), 1u);
  EXPECT_EQ(state.at("b").item(), '2');
  EXPECT_FALSE(state.contains("a"));
  EXPECT_EQ(state.unreadable().size(), 2u);
  EXPECT_TRUE(problem_of([&] {
                state.at("a");
              }).starts_with(file + ": tensor \"a\": dtype \"F33\" is not supported; F16, "));
  EXPECT_TRUE(problem_of([&] {
                state.at("c");
              }).starts_with(file + ": tensor \"c\": dtype \"F4\" is not supported"));
  struct Needs : nn::Module {
    nn::Parameter a;
    Needs() { a = add_parameter("a", zeros({7})); }
    Tensor forward(const Tensor& x) override { return x; }
  } needs;
  EXPECT_NE(problem_of([&] {
              needs.load_state_dict(state);
            }).find("missing: a [7] (" + file + ": tensor \"a\": dtype \"F33\""),
            std::string::npos);
}

// ---- What happens to a file after it was read is of no concern.

class FilesThatChange : public TemporaryFolder {
 protected:
  static constexpr std::int64_t kElements = 1 << 20;
  // Reads a file that `write` made, lets `change` have it, and computes with the values.
  void expect_unchanged(const std::string& name,
                        const std::function<void(const std::string&)>& write,
                        const std::function<Tensor(const std::string&)>& read) {
    const std::string file = path(name);
    for (const bool truncate : {true, false}) {
      write(file);
      const Tensor values = read(file);
      if (truncate) {
        fs::resize_file(file, 16);
      } else {
        const auto size = fs::file_size(file);
        std::fstream(file, std::ios::binary | std::ios::in | std::ios::out)
            << std::string(size, '\x7f');
      }
      EXPECT_EQ(values.sum().item(), kElements) << name << (truncate ? " truncated" : " changed");
      EXPECT_EQ(values.to_vector<float>(), std::vector<float>(kElements, 1.0f)) << name;
    }
  }
  static StateDict state() { return {{"w", ones({kElements})}}; }
};

TEST_F(FilesThatChange, LoadedTensorsAreTheirOwn) {
  expect_unchanged(
      "a.safetensors", [](const std::string& file) { save(state(), file); },
      [](const std::string& file) { return load(file).at("w"); });
  expect_unchanged(
      "a.npy", [](const std::string& file) { save_npy(ones({kElements}), file); },
      [](const std::string& file) { return load_npy(file); });
  expect_unchanged(
      "a.npz", [](const std::string& file) { save_npz(state(), file); },
      [](const std::string& file) { return load_npz(file).at("w"); });
}

struct Weights : nn::Module {
  nn::Parameter w;
  explicit Weights(std::int64_t n) { w = add_parameter("w", zeros({n})); }
  Tensor forward(const Tensor& x) override { return x * *w; }
};

TEST_F(FilesThatChange, WeightsOfModulesAreTheirOwn) {
  expect_unchanged(
      "a.safetensors", [](const std::string& file) { save(state(), file); },
      [](const std::string& file) {
        Weights module(kElements);
        module.load_state_dict(load(file));
        return module.w->detach();
      });
  expect_unchanged(
      "a.ckpt",
      [](const std::string& file) {
        Weights module(kElements);
        module.load_state_dict(state());
        save_checkpoint(file, {.model = module});
      },
      [](const std::string& file) {
        Weights module(kElements);
        load_checkpoint(file, {.model = module});
        return module.w->detach();
      });
}

TEST_F(FilesThatChange, AFileThatIsShortenedWhileItIsReadIsAnError) {
  save(state(), path("a.safetensors"));
  const SafetensorsFile file(path("a.safetensors"));
  fs::resize_file(path("a.safetensors"), 4096);
  std::vector<std::byte> bytes(file.tensors()[0].bytes);
  EXPECT_EQ(problem_of([&] { file.read(file.tensors()[0], bytes); }),
            path("a.safetensors") + ": cannot read: it was shortened meanwhile");
}

TEST_F(Files, AFolderThatIsNotThereIsSaid) {
  const std::string file = path("no/such/e.safetensors");
  EXPECT_EQ(problem_of([&] { save({{"a", ones({1})}}, file); }),
            file + ": cannot create: the folder " + path("no/such") + " does not exist");
  EXPECT_EQ(problem_of([&] { save_npy(ones({1}), path("none/a.npy")); }),
            path("none/a.npy") + ": cannot create: the folder " + path("none") + " does not exist");
  put("plain", "");
  EXPECT_EQ(problem_of([&] { save({{"a", ones({1})}}, path("plain/e")); }),
            path("plain/e") + ": cannot create: Not a directory");
}

TEST_F(Files, EveryDTypeAndNanPayloadComesBackBitForBit) {
  const std::uint16_t halves[] = {0x7E01, 0x8000, 0x0001, 0xFC00};
  StateDict state;
  for (const DType dtype : {DType::f16, DType::bf16})
    state.add(std::string(name_of(dtype)), from_blob(halves, {4}, dtype, {.copy = true}));
  save(state, path("m"));
  const StateDict back = load(path("m"));
  for (const auto& [name, tensor] : back)
    EXPECT_EQ(std::memcmp(tensor.span<std::byte>().data(), halves, sizeof halves), 0) << name;
}

TEST_F(Files, MetadataIsWritten) {
  save({{"a", ones({1})}}, path("m"), {.metadata = {{"format", "pt"}, {"by", "caf\xC3\xA9"}}});
  EXPECT_EQ(SafetensorsFile(path("m")).metadata(),
            (SafetensorsMetadata{{"format", "pt"}, {"by", "caf\xC3\xA9"}}));
}

// Small ones go in one copy and are taken apart there; the large one goes by itself.
TEST_F(Files, LoadingToADeviceMovesEveryByteOnce) {
  StateDict state;
  std::uint64_t bytes = 0;
  for (int i = 0; i < 40; ++i) {
    const Tensor tensor = arange(1 + 37 * i) + i;
    state.add("t" + std::to_string(i), tensor);
    bytes += static_cast<std::uint64_t>(tensor.numel()) * size_of(tensor.dtype());
  }
  state.add("large", full({10 << 20}, 3.5));
  state.add("none", zeros({0, 2}));
  bytes += std::uint64_t{40} << 20;
  save(state, path("m"));
  const Counters before = counters();
  const StateDict moved = load(path("m"), {.device = test_device()});
  if (test_device().is_gpu()) {
    EXPECT_EQ(counters().bytes_to_device - before.bytes_to_device, bytes);
    EXPECT_LE(counters().transfers - before.transfers, 3u);
  }
  for (const auto& [name, tensor] : state) {
    const Tensor& copy = moved.at(name);
    EXPECT_EQ(copy.device(), test_device());
    ASSERT_EQ(copy.shape(), tensor.shape());
    EXPECT_EQ(copy.to(Device::cpu()).eq(tensor).logical_not().sum().item(), 0) << name;
  }
}

// ---- Shards.

StateDict five_tensors() {
  StateDict state;
  for (int i = 0; i < 5; ++i) state.add("layer." + std::to_string(i), full({10}, 1.0 * i));
  return state;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

void expect_equal(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a)
    EXPECT_EQ(b.at(name).to_vector<float>(), tensor.to_vector<float>()) << name;
}

TEST_F(Files, ShardsAreCutByBytes) {
  using Cut = std::vector<std::vector<std::size_t>>;
  EXPECT_EQ(io::cut_into_shards({4, 4, 4}, 8), (Cut{{0, 1}, {2}}));
  EXPECT_EQ(io::cut_into_shards({4, 100, 4}, 8), (Cut{{0}, {1}, {2}}));
  EXPECT_EQ(io::cut_into_shards({4, 4}, 0), (Cut{{0, 1}}));
  EXPECT_EQ(io::cut_into_shards({}, 8), Cut{{}});
}

TEST_F(Files, ShardedModelsAreSavedAndFound) {
  const StateDict state = five_tensors();
  save(state, path("model.safetensors"), {.max_shard_bytes = 80, .metadata = {{"format", "pt"}}});
  EXPECT_EQ(names_in(folder_),
            (std::vector<std::string>{
                "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                "model-00003-of-00003.safetensors", "model.safetensors.index.json"}));
  expect_equal(state, load(folder_.string()));
  expect_equal(state, load(path("model.safetensors.index.json"), {.device = test_device()}));
  EXPECT_EQ(SafetensorsFile(path("model-00002-of-00003.safetensors")).metadata().at("format"),
            "pt");
}

TEST_F(Files, ShardsReplaceShardsAndSingleFilesWithoutATrace) {
  const std::string model = path("model.safetensors");
  save(five_tensors(), model, {.max_shard_bytes = 80});
  const StateDict old = load(folder_.string());
  StateDict other;
  for (const auto& [name, tensor] : old) other.add(name, tensor + 1);
  save(other, model, {.max_shard_bytes = 80});  // of tensors that lie in the files it replaces
  EXPECT_EQ(names_in(folder_).size(), 4u);
  expect_equal(other, load(folder_.string()));
  expect_equal(five_tensors(), old);  // still mapped
  save(other, model);
  EXPECT_EQ(names_in(folder_), std::vector<std::string>{"model.safetensors"});
  save(five_tensors(), model, {.max_shard_bytes = 80});
  EXPECT_EQ(names_in(folder_).size(), 4u);
  expect_equal(five_tensors(), load(folder_.string()));
}

TEST_F(Files, WhatFitsOneShardIsOneFile) {
  save(five_tensors(), path("model.safetensors"), {.max_shard_bytes = 200});
  EXPECT_EQ(names_in(folder_), std::vector<std::string>{"model.safetensors"});
}

TEST_F(Files, AFolderHasOneModel) {
  EXPECT_EQ(problem_of([&] { load(folder_.string()); }),
            folder_.string() +
                ": neither model.safetensors nor pytorch_model.bin is in the folder, and 0 others: "
                "name the file to read");
  save(five_tensors(), path("a.safetensors"));
  expect_equal(five_tensors(), load(folder_.string()));
  save(five_tensors(), path("b.safetensors"));
  EXPECT_EQ(problem_of([&] { load(folder_.string()); }),
            folder_.string() +
                ": neither model.safetensors nor pytorch_model.bin is in the folder, and 2 others: "
                "name the file to read");
}

TEST_F(Files, BadIndicesAreNamed) {
  save({{"a", ones({1})}, {"b", ones({1})}}, path("one.safetensors"));
  save({{"b", ones({1})}}, path("two.safetensors"));
  const auto problem = [&](const std::string& text) {
    const std::string index = put("m.safetensors.index.json", text);
    const std::string message = problem_of([&] { load(index); });
    return message.starts_with(index + ": ") ? message.substr(index.size() + 2) : message;
  };
  EXPECT_EQ(problem("[]"), "the index is not a JSON object");
  EXPECT_EQ(problem("{"), "not valid JSON at byte 1: expected a key");
  EXPECT_EQ(problem("{}"), "the index has no weight_map");
  EXPECT_EQ(problem(R"({"weight_map":3})"), "weight_map is not a JSON object");
  EXPECT_EQ(problem(R"({"weight_map":{"a":1}})"), "weight_map: the file of \"a\" is not a string");
  for (const char* name : {"../one.safetensors", "/etc/passwd", "", "..", "x\\\\y", "a/b"})
    EXPECT_TRUE(problem(std::string(R"({"weight_map":{"a":")") + name + "\"}}")
                    .ends_with("is not the name of a file beside the index"))
        << name;
  EXPECT_EQ(problem(R"({"weight_map":{"a":"one.safetensors"}})"),
            "tensor \"b\" of one.safetensors is not in the index");
  EXPECT_EQ(problem(R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})"),
            "tensor \"b\" of one.safetensors is in two.safetensors according to the index");
  EXPECT_EQ(problem(R"({"weight_map":{"b":"two.safetensors","c":"two.safetensors"}})"),
            "tensor \"c\" is not in two.safetensors, where the index has it");
  EXPECT_EQ(problem(R"({"weight_map":{"a":"absent.safetensors"}})"),
            path("absent.safetensors") + ": cannot open: No such file or directory");
}

// ---- Killed while saving.

// Saves again and again in a child that is killed at some moment; whatever is there is whole.
void expect_whole_after_kills(const std::string& model, const std::string& loaded,
                              SaveOptions options) {
  const auto version = [](float value) {
    StateDict state;
    for (int i = 0; i < 8; ++i) state.add(std::to_string(i), full({1 << 16}, value));
    return state;
  };
  save(version(0), model, options);
  for (int round = 0; round < 6; ++round) {
    // The values are computed here: a forked child has none of the library's threads.
    std::vector<StateDict> versions;
    for (int i = 1; i <= 3; ++i) {
      versions.push_back(version(static_cast<float>(i)));
      for (const auto& [name, tensor] : versions.back()) tensor.span<float>();
    }
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (std::size_t i = 0;; ++i) save(versions[i % 3], model, options);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(3 + 7 * round));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const StateDict state = load(loaded);
    ASSERT_EQ(state.size(), 8u);
    const float value = state.at("0").narrow(0, 0, 1).item<float>();
    for (const auto& [name, tensor] : state)
      EXPECT_EQ(tensor.ne(value).sum().item(), 0) << name << " in round " << round;
  }
}

TEST_F(Files, AKilledSaveLeavesAWholeFile) {
  expect_whole_after_kills(path("model.safetensors"), path("model.safetensors"), {});
}

TEST_F(Files, AKilledSaveLeavesAWholeSetOfShards) {
  expect_whole_after_kills(path("model.safetensors"), folder_.string(),
                           {.max_shard_bytes = 600'000});
}

// Links stay links, and what is no file stays what it is.
TEST_F(Files, OnlyFilesAreReplaced) {
  save({{"a", ones({4})}}, path("m"));
  fs::create_symlink("m", path("link"));
  save({{"a", zeros({4})}}, path("link"));
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(load(path("m")).at("a").sum().item(), 0);
  fs::create_symlink("new", path("dangling"));
  save({{"a", ones({4})}}, path("dangling"));
  EXPECT_TRUE(fs::is_symlink(path("dangling")));
  EXPECT_EQ(load(path("new")).at("a").sum().item(), 4);
  fs::create_directory(path("folder"));
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  for (const char* name : {"folder", "pipe"}) {
    try {
      save({{"a", ones({4})}}, path(name));
      FAIL() << name;
    } catch (const IoError& error) {
      EXPECT_NE(std::string(error.what()).find("not a regular file"), std::string::npos);
    }
  }
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
}

// The old file to the last byte, when the process dies before the new one is complete.
TEST_F(Files, AFileThatWasNotCommittedChangesNothing) {
  save({{"a", ones({4})}}, path("m"));
  const std::string before = platform::read_file(path("m"));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    platform::AtomicFile file(path("m"));
    file.write("half of a new file");
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(platform::read_file(path("m")), before);
  EXPECT_EQ(file_count(), 2u);  // the temporary file stays behind
  {
    platform::AtomicFile file(path("m"));
    file.write("given up");
  }
  EXPECT_EQ(platform::read_file(path("m")), before);
  EXPECT_EQ(file_count(), 1u);  // what the first left is gone as well
}

TEST_F(Files, WhatCannotBeComputedLeavesTheOldFile) {
  save({{"a", ones({4})}}, path("m"));
  const std::string before = platform::read_file(path("m"));
  const Tensor bad = index_select(ones({4}), 0, from_vector<std::int64_t>({9}));
  EXPECT_THROW(save({{"a", bad}}, path("m")), IndexError);
  EXPECT_EQ(platform::read_file(path("m")), before);
  EXPECT_EQ(file_count(), 1u);
}

}  // namespace
}  // namespace volta
