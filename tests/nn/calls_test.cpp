// Information about the calls of modules: the layer that an error comes from, the source location
// that is reported, the classes of modules, and forgotten modules.
#include <gtest/gtest.h>

#include <concepts>
#include <functional>
#include <string>
#include <vector>

#include "support/test_device.h"
#include "volta/models.h"
#include "volta/volta.h"

namespace volta {
namespace {

static_assert(!std::copy_constructible<nn::Module>);  // void train(nn::Module) would cut off layers

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

struct Inner : nn::Module {
  nn::Linear fc{4, 4};
  Inner() { add("fc", fc); }
  Tensor forward(const Tensor& x) override { return fc(x); }
};
struct Outer : nn::Module {
  nn::ModuleList<Inner> list{Inner(), Inner()};
  nn::Linear forgotten{4, 3};
  Outer() { add("list", list); }
  Tensor forward(const Tensor& x) override { return forgotten(list[1](x)); }
};

TEST(ModuleCalls, ErrorsNameTheLayer) {
  models::LeNet lenet;
  const std::string lenet_message = message_of([&] { lenet(zeros({2, 1, 32, 32})); });
  EXPECT_NE(lenet_message.find("does not fit weight"), std::string::npos) << lenet_message;
  EXPECT_NE(lenet_message.find("(in fc1 of LeNet)"), std::string::npos) << lenet_message;
  Outer outer;
  EXPECT_NE(message_of([&] { outer(zeros({2, 5})); }).find("(in list.1.fc of Outer)"),
            std::string::npos);
  EXPECT_THROW(outer(zeros({2, 5})), ShapeError);  // of its former class
  // A layer that is called by itself has no path.
  EXPECT_EQ(message_of([&] { outer.forgotten(zeros({2, 5})); }).find("(in "), std::string::npos);
  nn::Sequential with_lstm({nn::Linear(4, 4), nn::LSTM(4, 4)});
  EXPECT_NE(message_of([&] { with_lstm(zeros({1, 2, 4})); }).find("LSTM"), std::string::npos);
}

// Tries one layer, then another one.
struct Careful : nn::Module {
  nn::Linear first{7, 2}, second{8, 2};
  Careful() {
    add("first", first);
    add("second", second);
  }
  Tensor forward(const Tensor& x) override {
    try {
      return first(x);
    } catch (const ShapeError&) {
      return second(x);
    }
  }
};

// The forward pass itself throws.
struct Refusing : nn::Module {
  Tensor forward(const Tensor&) override { throw ArgumentError("not today"); }
};

TEST(ModuleCalls, ErrorsThatTheProgramThrowsNameTheLayer) {
  const nn::Sequential inner({nn::ReLU(), Refusing()});
  nn::Sequential model({nn::ReLU(), inner});
  EXPECT_EQ(message_of([&] { model(zeros({2, 5})); }), "not today (in 1.1 of Sequential)");
}

TEST(ModuleCalls, AnErrorThatWasCaughtLeavesNothing) {
  Careful careful;
  EXPECT_EQ(careful(zeros({1, 8})).shape(), (Shape{1, 2}));
  const std::string message = message_of([&] { careful(zeros({1, 9})); });
  EXPECT_NE(message.find("(in second of Careful)"), std::string::npos) << message;
}

TEST(ModuleCalls, IndexErrorsNameTheCallersPlace) {
  nn::Embedding table(4, 2);
  nn::Sequential model({table});
  model.to(test_device());
  const Tensor ids = tensor({9}, {1}, {.dtype = DType::i64, .device = test_device()});
  const int line = __LINE__ + 1;
  const Tensor rows = model(ids);
  const std::string message = message_of([&] { (void)rows.to_vector<float>(); });
  EXPECT_NE(message.find("calls_test.cpp:" + std::to_string(line)), std::string::npos) << message;
  // The innermost call in the user's code, not the outermost.
  struct Net : nn::Module {
    nn::Embedding table{4, 2};
    int line = 0;
    Net() { add("table", table); }
    Tensor forward(const Tensor& x) override {
      line = __LINE__ + 1;
      return table(x);
    }
  };
  Net net;
  net.to(test_device());
  const Tensor again = net(ids);
  const std::string inner = message_of([&] { (void)again.to_vector<float>(); });
  EXPECT_NE(inner.find("calls_test.cpp:" + std::to_string(net.line)), std::string::npos) << inner;
}

TEST(ModuleCalls, ModulesAreOfTheirClass) {
  Outer outer;
  int linears = 0;
  outer.apply([&](nn::Module& module) {
    auto* linear = dynamic_cast<nn::Linear*>(&module);
    if (linear == nullptr) return;
    ++linears;
    nn::init::constant_(linear->weight, 0.5);
  });
  EXPECT_EQ(linears, 2);
  EXPECT_EQ(outer.list[0].fc.weight->sum().item(), 8);
  for (const auto& [name, module] : outer.named_modules()) {
    if (name == "list.0") {
      EXPECT_NE(dynamic_cast<Inner*>(module.get()), nullptr);
    } else if (name.empty()) {
      EXPECT_EQ(module.get(), &outer);
    }
  }
  // A clone has its own modules.
  Outer other = nn::clone(outer);
  other.apply([](nn::Module& module) {
    if (auto* linear = dynamic_cast<nn::Linear*>(&module)) nn::init::constant_(linear->weight, 0);
  });
  EXPECT_EQ(outer.list[0].fc.weight->sum().item(), 8);
  EXPECT_EQ(other.list[0].fc.weight->sum().item(), 0);
}

TEST(ModuleCalls, ListsKeepDerivedClasses) {
  nn::ModuleList<nn::Module> mixed{nn::Linear(2, 3), nn::ReLU()};
  mixed.append(nn::Linear(3, 1));
  Tensor x = ones({1, 2});
  for (nn::Module& module : mixed) x = module(x);
  EXPECT_EQ(x.shape(), (Shape{1, 1}));
  EXPECT_EQ(mixed[1].kind(), "ReLU");
}

TEST(ModuleCalls, ASummaryTellsForgottenModules) {
  Outer outer;
  const nn::Summary summary = outer.summary({2, 4});
  EXPECT_EQ(summary.strays, std::vector<std::string>{"Linear"});
  EXPECT_NE(to_string(summary).find("never added"), std::string::npos);
  EXPECT_TRUE(models::LeNet().summary({1, 1, 28, 28}).strays.empty());
}

}  // namespace
}  // namespace volta
