// Training checkpoints: a run that was stopped and resumed in a new process gives the same bits;
// loading a checkpoint that does not fit changes nothing.
#include "volta/io/checkpoint.h"

#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "backend/timed_choice.h"
#include "io/io_files.h"
#include "support/test_device.h"
#include "volta/safetensors.h"
#include "volta/volta.h"

namespace volta {
namespace {

using Checkpoints = TemporaryFolder;

// Serves rows of a dataset in a new order every epoch, as a loader does for a checkpoint.
class Shuffled {
 public:
  Shuffled(std::int64_t count, std::int64_t batch, Generator numbers)
      : count_(count), batch_(batch), numbers_(std::move(numbers)) {
    shuffle();
  }

  std::vector<std::int64_t> next() {
    if (position_ + batch_ > count_) shuffle();
    const auto begin = order_.begin() + position_;
    position_ += batch_;
    return {begin, begin + batch_};
  }
  std::int64_t position() const { return position_; }

  StateDict state_dict() const {
    return {{"order", from_vector(order_)}, {"position", scalar(position_, {.dtype = DType::i64})}};
  }
  void load_state_dict(const StateDict& state) {
    if (state.at("order").shape() != Shape{count_})
      throw ArgumentError("Shuffled: an order of " + to_string(state.at("order").shape()) +
                          " rows, not [" + std::to_string(count_) + "]");
    order_ = state.at("order").to_vector<std::int64_t>();
    position_ = state.at("position").item<std::int64_t>();
  }

 private:
  void shuffle() {
    const std::vector<float> keys = rand({count_}, {.generator = numbers_}).to_vector<float>();
    order_.resize(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) order_[i] = static_cast<std::int64_t>(i);
    std::ranges::sort(order_, {},
                      [&](std::int64_t i) { return keys[static_cast<std::size_t>(i)]; });
    position_ = 0;
  }

  std::int64_t count_, batch_, position_ = 0;
  Generator numbers_;
  std::vector<std::int64_t> order_;
};

// A run with all parts that have state.
struct Training {
  explicit Training(std::int64_t hidden = 32)
      : model({{"fc1", nn::Linear(8, hidden, {.device = test_device()})},
               {"act", nn::Tanh()},
               {"drop", nn::Dropout(0.3)},
               {"fc2", nn::Linear(hidden, 4, {.device = test_device()})}}),
        optimizer(model.parameters(), {.lr = 1e-2}),
        scheduler(optimizer, {.total_steps = 100, .warmup_steps = 20}),
        scaler({.init_scale = 1024, .growth_interval = 30}),
        numbers(7),
        loader(50, 16, numbers) {
    const Generator data(11);
    inputs = randn({50, 8}, {.generator = data});
    targets = randn({50, 4}, {.generator = data});
  }

  void train(int steps) {
    for (int i = 0; i < steps; ++i) {
      const Tensor rows = from_vector(loader.next());
      const Tensor x = index_select(inputs, 0, rows).to(test_device());
      const Tensor y = index_select(targets, 0, rows).to(test_device());
      optimizer.zero_grad();
      scaler.scale(mse_loss(model(x), y)).backward();
      scaler.step(optimizer);
      scaler.update();
      scheduler.step();
    }
  }

  CheckpointParts parts() {
    return {.model = model,
            .optimizer = optimizer,
            .scheduler = scheduler,
            .scaler = scaler,
            .loader = loader,
            .generators = {{"shuffling", numbers}}};
  }
  // All tensors that a further step depends on.
  StateDict whole() {
    StateDict all;
    const auto add = [&](const std::string& name, const StateDict& state) {
      for (const auto& [key, tensor] : state) all.add(name + "/" + key, tensor);
    };
    add("model", model.state_dict());
    add("optimizer", optimizer.state_dict());
    add("scheduler", scheduler.state_dict());
    add("scaler", scaler.state_dict());
    add("loader", loader.state_dict());
    for (const auto& [name, generator] : {std::pair{"own", Generator()}, {"shuffling", numbers}})
      all.add(name,
              from_vector<std::int64_t>({static_cast<std::int64_t>(generator.state().seed),
                                         static_cast<std::int64_t>(generator.state().offset)}));
    return all;
  }

  nn::Sequential model;
  optim::Adam optimizer;
  optim::CosineLR scheduler;
  GradScaler scaler;
  Generator numbers;
  Shuffled loader;
  Tensor inputs, targets;
};

void expect_same_bits(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_EQ(b.at(name).dtype(), tensor.dtype()) << name;
    const Tensor left = tensor.to(Device::cpu()), right = b.at(name).to(Device::cpu());
    ASSERT_EQ(left.shape(), right.shape()) << name;
    const auto bytes = left.span<std::byte>();
    EXPECT_EQ(std::memcmp(bytes.data(), right.span<std::byte>().data(), bytes.size()), 0) << name;
  }
}

constexpr const char* kResumeFolder = "VOLTA_TEST_RESUME_FOLDER";

TEST_F(Checkpoints, FiftyStepsANewProcessAndFiftyStepsAreAHundred) {
  manual_seed(5);
  Training through;
  through.train(100);
  const StateDict expected = through.whole();

  manual_seed(5);
  Training first;
  first.train(50);
  EXPECT_NE(first.loader.position(), 0);  // in the middle of an epoch
  save_checkpoint(path("run.ckpt"), first.parts(), {.numbers = {{"step", 50}}});
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  // The child runs a single test, not a shard of several.
  const std::string command =
      "env -u GTEST_TOTAL_SHARDS -u GTEST_SHARD_INDEX " + std::string(kResumeFolder) + "='" +
      folder_.string() + "' '" + program + "' --device=" + to_string(test_device()) +
      " --gtest_brief=1 --gtest_filter=Checkpoints.TheSecondHalf > '" + path("output") + "' 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0) << platform::read_file(path("output"));
  expect_same_bits(expected, load(path("second.safetensors")));
  // Without the checkpoint's generators and positions the run would differ.
  EXPECT_NE(first.model.state_dict().at("fc1.weight").to_vector<float>(),
            expected.at("model/fc1.weight").to_vector<float>());
}

// The test that the new process runs.
TEST_F(Checkpoints, TheSecondHalf) {
  const char* folder = std::getenv(kResumeFolder);
  if (folder == nullptr) GTEST_SKIP() << "the test above runs this";
  manual_seed(99);
  Training run;
  run.train(3);  // earlier state is replaced
  const CheckpointValues values = load_checkpoint(std::string(folder) + "/run.ckpt", run.parts());
  EXPECT_EQ(values.numbers.at("step"), 50);
  run.train(50);
  save(run.whole(), std::string(folder) + "/second.safetensors");
}

// A run with a typical loader: workers, shuffling, random transforms.
struct LoadedTraining {
  LoadedTraining()
      : loader(data::digits(data::Split::train, {.count = 60}),
               {.batch_size = 16,
                .shuffle = true,
                .workers = 2,
                .device = test_device(),
                .transform = data::compose({data::random_affine({.degrees = 10, .translate = 0.1}),
                                            data::random_horizontal_flip()})}),
        model({{"conv", nn::Conv2d(1, 4, 5, {.stride = 3, .device = test_device()})},
               {"norm", nn::BatchNorm2d(4, {.device = test_device()})},
               {"act", nn::ReLU()},
               {"flat", nn::Flatten()},
               {"drop", nn::Dropout(0.3)},
               {"fc", nn::Linear(4 * 8 * 8, 10, {.device = test_device()})}}),
        optimizer(model.parameters(), {.lr = 1e-2}),
        scheduler(optimizer, {.max_lr = 2e-2, .total_steps = 12}) {}

  // Trains up to this step of twelve, with four per epoch; calls `at_end` inside the loop.
  template <class AtEnd>
  void train_to(int last, AtEnd at_end) {
    while (step < last) {
      for (const auto& [x, y] : loader) {
        optimizer.zero_grad();
        const Tensor loss = cross_entropy(model(x), y);
        loss.backward();
        optimizer.step();
        if (step + 1 < 12) scheduler.step();
        losses.push_back(loss.item<float>());
        if (++step == last) {
          at_end();
          break;
        }
      }
    }
  }
  CheckpointParts parts() {
    return {.model = model, .optimizer = optimizer, .scheduler = scheduler, .loader = loader};
  }

  data::DataLoader loader;
  nn::Sequential model;
  optim::AdamW optimizer;
  optim::OneCycleLR scheduler;
  int step = 0;
  std::vector<float> losses;
};

TEST_F(Checkpoints, ADataLoaderResumesInMidEpochBitForBit) {
  manual_seed(21);
  LoadedTraining through;
  through.train_to(12, [] {});

  manual_seed(21);
  LoadedTraining first;
  first.train_to(6, [&] { save_checkpoint(path("run.ckpt"), first.parts()); });
  EXPECT_EQ(first.loader.epoch(), 1);
  EXPECT_EQ(first.loader.position(), 2);
  // Continues without a stop in between.
  manual_seed(77);
  LoadedTraining second;
  second.train_to(1, [] {});  // earlier state is replaced
  load_checkpoint(path("run.ckpt"), second.parts());
  second.step = 6;
  second.losses = first.losses;
  second.train_to(12, [] {});
  EXPECT_EQ(second.losses, through.losses);  // for every step
  expect_same_bits(through.model.state_dict(), second.model.state_dict());
  expect_same_bits(through.optimizer.state_dict(), second.optimizer.state_dict());
  expect_same_bits(through.scheduler.state_dict(), second.scheduler.state_dict());
  expect_same_bits(through.loader.state_dict(), second.loader.state_dict());

  // Without the loader's state the batches differ.
  manual_seed(77);
  LoadedTraining without;
  CheckpointParts parts = without.parts();
  parts.loader = {};
  load_checkpoint(path("run.ckpt"), parts);
  without.step = 6;
  without.train_to(12, [] {});
  EXPECT_NE(without.losses.back(), through.losses.back());
}

// Throws an exception that is not Volta's, halfway through loading.
struct Unreliable {
  struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  StateDict state_dict() const { return {{"one", scalar(one)}, {"two", scalar(two)}}; }
  void load_state_dict(const StateDict& state) {
    one = state.at("one").item<float>();
    if (fails && one != 1) throw Failure("the disk is full");
    two = state.at("two").item<float>();
  }
  float one = 1, two = 2;
  bool fails = false;
};

TEST_F(Checkpoints, PartsThatThrowAnythingChangeNothing) {
  manual_seed(5);
  Training saved;
  saved.train(2);
  Unreliable part{.one = 10, .two = 20};
  const auto with = [](Training& run, Unreliable& own) {
    CheckpointParts parts = run.parts();
    parts.others = {{"own", own}};
    return parts;
  };
  save_checkpoint(path("c"), with(saved, part));

  manual_seed(6);
  Training run;
  run.train(1);
  const StateDict before = run.whole();
  Unreliable failing{.fails = true};
  try {
    load_checkpoint(path("c"), with(run, failing));
    ADD_FAILURE() << "no error";
  } catch (const ArgumentError& error) {
    EXPECT_EQ(error.what(), "load_checkpoint: " + path("c") +
                                " does not fit; nothing was changed\n"
                                "others.own: the disk is full");
    EXPECT_THROW(std::rethrow_if_nested(error), Unreliable::Failure);
  }
  expect_same_bits(before, run.whole());
  EXPECT_EQ(failing.one, 1);
  EXPECT_EQ(failing.two, 2);
}

// Loading only weights should not change the next random numbers.
TEST_F(Checkpoints, TheThreadsGeneratorGoesWithTheOptimizerOrAsTold) {
  manual_seed(5);
  Training saved;
  saved.train(2);
  save_checkpoint(path("c"), saved.parts());
  const GeneratorState of_file = Generator().state();
  const auto after = [&](const CheckpointParts& parts) {
    manual_seed(8);
    load_checkpoint(path("c"), parts);
    return Generator().state();
  };
  Training run;
  const GeneratorState untouched{.seed = 8, .offset = 0};
  EXPECT_EQ(after({.model = run.model}), untouched);
  EXPECT_EQ(after({}), untouched);
  EXPECT_EQ(after({.model = run.model, .thread_generator = true}), of_file);
  EXPECT_EQ(after({.model = run.model, .optimizer = run.optimizer}), of_file);
  EXPECT_EQ(after({.optimizer = run.optimizer, .thread_generator = false}), untouched);
}

TEST_F(Checkpoints, ValuesComeBackExactly) {
  const CheckpointValues values{
      .numbers = {{"epoch", 3}, {"best", 0.1}, {"worst", 1e300}, {"none", INFINITY}},
      .texts = {{"note", "caf\xC3\xA9 \"quoted\"\n"}, {"empty", ""}}};
  save_checkpoint(path("c"), {}, values);
  const CheckpointValues back = load_checkpoint(path("c"), {});
  EXPECT_EQ(back.numbers, values.numbers);
  EXPECT_EQ(back.texts, values.texts);
}

TEST_F(Checkpoints, TheWrongArchitectureChangesNothingAndListsAllDifferences) {
  manual_seed(5);
  Training saved;
  saved.train(2);
  CheckpointParts parts = saved.parts();
  parts.scaler = {};
  save_checkpoint(path("c"), parts);

  manual_seed(6);
  Training wider(33);
  wider.train(1);
  const StateDict before = wider.whole();
  Shuffled other(51, 16, Generator(1));
  CheckpointParts wanted = wider.parts();
  wanted.others = {{"other", other}};
  const std::string message = problem_of([&] { load_checkpoint(path("c"), wanted); });
  EXPECT_TRUE(message.starts_with("load_checkpoint: " + path("c") +
                                  " does not fit; nothing was changed\n"
                                  "model: load_state_dict: the state dict does not fit the module\n"
                                  "  wrong shape: fc1.weight is [33, 8] in the module, [32, 8] in "
                                  "the state dict\n"))
      << message;
  for (const char* part :
       {"wrong shape: fc1.bias is [33] in the module, [32] in the state dict",
        "wrong shape: fc2.weight is [4, 33] in the module, [4, 32] in the state dict",
        "\noptimizer: Adam: the state dict does not fit the optimizer",
        "\nscaler: not in the checkpoint", "\nothers.other: not in the checkpoint"})
    EXPECT_NE(message.find(part), std::string::npos) << part << "\nin\n" << message;
  EXPECT_EQ(message.find("\nscheduler"), std::string::npos) << message;  // the scheduler would fit
  expect_same_bits(before, wider.whole());
}

TEST_F(Checkpoints, PartsCanBeLoadedAlone) {
  manual_seed(5);
  Training saved;
  saved.train(2);
  save_checkpoint(path("c"), saved.parts());
  Training other;
  load_checkpoint(path("c"), {.model = other.model});
  expect_same_bits(saved.model.state_dict(), other.model.state_dict());
  // The same file contains the weights for other models.
  EXPECT_TRUE(load(path("c")).contains("model.fc1.weight"));
}

TEST_F(Checkpoints, OtherPartsAndGeneratorsGoByName) {
  Shuffled one(20, 3, Generator(1)), two(20, 3, Generator(2));
  const Generator numbers(3);
  rand({5}, {.generator = numbers}).eval();
  one.next();
  save_checkpoint(path("c"),
                  {.others = {{"one", one}, {"two", two}}, .generators = {{"numbers", numbers}}});
  Shuffled back(20, 3, Generator(4));
  const Generator other(9);
  load_checkpoint(path("c"), {.others = {{"one", back}}, .generators = {{"numbers", other}}});
  EXPECT_EQ(back.next(), one.next());
  EXPECT_EQ(other.state(), numbers.state());
  for (const char* name : {"", "a.b"})
    EXPECT_THROW(save_checkpoint(path("d"), {.others = {{name, one}}}), ArgumentError) << name;
  EXPECT_EQ(problem_of([&] { save_checkpoint(path("d"), {.others = {{"a", one}, {"a", two}}}); }),
            "save_checkpoint: there are two others called 'a'");
}

TEST_F(Checkpoints, TimedChoicesTravel) {
  const std::vector<std::string> names{"slow", "fast"};
  const ChoiceKey choice_key{"a machine", "of a checkpoint " + folder_.string()};
  adopt_candidates({{"some key of another process", "a candidate"}});
  remember_candidate(choice_key, "slow");
  save_checkpoint(path("c"), {});
  remember_candidate(choice_key, "fast");
  EXPECT_EQ(remembered_candidate(choice_key, names), 1u);
  load_checkpoint(path("c"), {});
  EXPECT_EQ(remembered_candidate(choice_key, names), 0u);
  EXPECT_EQ(chosen_candidates().at("some key of another process"), "a candidate");
}

TEST_F(Checkpoints, OtherFilesAreNoCheckpoints) {
  const auto problem = [&](const SaveOptions& options) {
    save({{"a", ones({1})}}, path("c"), options);
    return problem_of([&] { load_checkpoint(path("c"), {}); }).substr(path("c").size());
  };
  EXPECT_EQ(problem({}), ": not a checkpoint: its metadata has no 'format'");
  EXPECT_EQ(problem({.metadata = {{"format", "pt"}}}), ": not a checkpoint but 'pt'");
  EXPECT_EQ(problem({.metadata = {{"format", "volta.checkpoint"}, {"version", "2"}}}),
            ": a checkpoint of version 2, this library reads 1");
  EXPECT_EQ(problem({.metadata = {{"format", "volta.checkpoint"}, {"version", "1"}}}),
            ": not a checkpoint: its metadata has no 'timed_choices'");
  EXPECT_EQ(problem({.metadata = {{"format", "volta.checkpoint"},
                                  {"version", "1"},
                                  {"number.x", "7,"},
                                  {"timed_choices", "{}"}}}),
            ": number.x is no number: \"7,\"");
  EXPECT_EQ(problem({.metadata = {{"format", "volta.checkpoint"},
                                  {"version", "1"},
                                  {"timed_choices", "[]"}}}),
            ": timed_choices is not a JSON object");
  EXPECT_THROW(load_checkpoint(path("absent"), {}), IoError);
}

}  // namespace
}  // namespace volta
