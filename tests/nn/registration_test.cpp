// Members that were never added to their module, and modules that are rightly not part of one.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "support/test_device.h"
#include "volta/volta.h"

namespace volta {
namespace {

constexpr const char* kAdvice =
    ": add it under a name in the constructor, add(\"name\", member), or say that it is no part of "
    "the module, leave_out(member)";

template <class Act>
std::string message_of(Act act) {
  try {
    act();
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "no error";
}

TensorOptions here() { return {.device = test_device()}; }
nn::LinearOptions made() { return {.device = test_device()}; }

// Runs a forward and a backward pass and a step with the parameters of the model.
template <class Model>
void train(Model& model, const Tensor& x = ones({2, 4}, here())) {
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  model(x).sum().backward();
  optimizer.step();
}

struct Forgetful : nn::Module {
  nn::Linear first{4, 4, made()}, second{4, 4, made()};
  nn::ReLU activation;  // has nothing to add
  Forgetful() { add("first", first); }
  Tensor forward(const Tensor& x) override { return second(activation(first(x))); }
};

// Its layers are not its own members.
struct Kept : nn::Module {
  std::vector<nn::Linear> layers;
  std::shared_ptr<nn::Linear> last;
  Kept() {
    add("first", layers.emplace_back(4, 4, made()));
    last = std::make_shared<nn::Linear>(4, 4, made());
  }
  Tensor forward(const Tensor& x) override { return (*last)(layers[0](x)); }
};

// ---- Reported.

TEST(Registration, AForgottenMemberOfAPartIsAnErrorAtTheFirstParameters) {
  const std::string forgotten =
      std::string("Forgetful: its member of class Linear was never added") + kAdvice;
  struct Outer : nn::Module {
    Forgetful part;
    Outer() { add("part", part); }
  };
  Outer outer;
  EXPECT_EQ(message_of([&] { outer.parameters(); }), forgotten);
  EXPECT_EQ(message_of([&] { outer.named_parameters(); }), forgotten);
  EXPECT_EQ(message_of([&] { outer.state_dict(); }), forgotten);
  EXPECT_EQ(message_of([&] { outer.load_state_dict({}, {.strict = false}); }), forgotten);
  const nn::Sequential list{nn::Linear(4, 4, made()), Forgetful()};
  EXPECT_EQ(message_of([&] { list.parameters(); }), forgotten);
  nn::ModuleList<Forgetful> modules;
  modules.append(Forgetful());
  EXPECT_EQ(message_of([&] { modules.parameters(); }), forgotten);
  // Classes that are deeply copied are recognised, too.
  const Forgetful alone;
  clone(alone);
  EXPECT_EQ(message_of([&] { alone.parameters(); }), forgotten);
}

TEST(Registration, AForgottenMemberOfTheOutermostIsAnErrorAtTheFirstStep) {
  Forgetful model;
  const std::vector<float> before = model.first.weight->to_vector<float>();
  EXPECT_EQ(message_of([&] { train(model); }),
            std::string("Forgetful: it calls a Linear that was never added to it, so that nobody "
                        "trains its parameters, which have gradients") +
                kAdvice);
  EXPECT_EQ(model.first.weight->to_vector<float>(), before);  // nothing was updated
}

TEST(Registration, MembersThatAreNoObjectsOfTheirOwn) {
  Kept kept;
  EXPECT_EQ(message_of([&] { train(kept); }).substr(0, 44),
            "Kept: it calls a Linear that was never added");
}

TEST(Registration, AddingItLaterIsEarlyEnough) {
  struct Late : nn::Module {
    nn::Linear first{4, 4, made()}, second{4, 4, made()};
    Late() { add("first", first); }
    void complete() { add("second", second); }
    Tensor forward(const Tensor& x) override { return second(first(x)); }
  };
  Late late;
  nn::Sequential list{late};
  EXPECT_NE(message_of([&] { list.parameters(); }), "no error");
  late.complete();
  EXPECT_EQ(list.parameters().size(), 4u);
  nn::Sequential copy = clone(list);
  EXPECT_EQ(copy.parameters().size(), 4u);
  train(list);
}

// ---- Rightly not part of the module.

TEST(Registration, ModulesFromOutside) {
  struct Distilled : nn::Module {
    nn::Linear student{4, 4, made()};
    nn::Linear& teacher;
    nn::Linear handle;  // a handle to the same module
    explicit Distilled(nn::Linear& t) : teacher(t), handle(t) { add("student", student); }
    Tensor forward(const Tensor& x) override { return student(x) - teacher(x) + handle(x); }
  };
  nn::Linear teacher(4, 4, made());
  Distilled model(teacher);
  train(model);
  nn::Sequential list{model};
  EXPECT_EQ(list.parameters().size(), 2u);
}

TEST(Registration, ModulesThatSomebodyElseTrains) {
  struct Pair : nn::Module {
    nn::Linear own{4, 4, made()};
    nn::Linear* other = nullptr;
    Pair() { add("own", own); }
    Tensor forward(const Tensor& x) override { return own((*other)(x)); }
  };
  Pair pair;
  nn::Linear other(4, 4, made());  // younger than its caller
  pair.other = &other;
  optim::SGD both(std::vector<optim::SGDGroup>{{.parameters = pair.parameters()},
                                               {.parameters = other.parameters()}},
                  {.lr = 0.1});
  pair(ones({2, 4}, here())).sum().backward();
  both.step();
  train(pair);
  // The module is part of another model.
  struct Owner : nn::Module {
    nn::Linear part{4, 4, made()};
    Owner() { add("part", part); }
  };
  Owner owner;
  Pair user;
  user.other = &owner.part;
  train(user);
}

TEST(Registration, FunctionsAndPassesWithoutATrainer) {
  // Modules that are passed as arguments, live for one call, or are captured by a lambda.
  struct Applies : nn::Module {
    nn::Linear own{4, 4, made()};
    std::function<Tensor(const Tensor&)> more;
    Applies() { add("own", own); }
    Tensor operator()(nn::Module& body, const Tensor& x) {
      return call(SourceLocation::here(), [&] { return own(body(x)); });
    }
    Tensor forward(const Tensor& x) override {
      return (more ? more(x) : x) + own(nn::Linear(4, 4, made())(x));
    }
    using Module::operator();
  };
  const Tensor x = ones({2, 4}, here());
  Applies model;
  nn::Linear body(4, 4, made());
  model(body, x).sum().backward();  // gradients are read, but nothing is trained
  EXPECT_TRUE(body.weight->grad().defined());
  EXPECT_EQ(model.parameters().size(), 2u);
  Applies other;
  train(other, x);
  nn::Linear frozen(4, 4, made());
  frozen.requires_grad(false);
  other.more = [frozen](const Tensor& t) mutable { return frozen(t); };
  train(other, x);
  nn::Linear unheeded(4, 4, made());
  other.more = [unheeded](const Tensor& t) mutable {
    const NoGrad no_grad;
    return unheeded(t);
  };
  train(other, x);
}

TEST(Registration, AHiddenTeacherIsLeftOutExplicitly) {
  struct Student : nn::Module {
    nn::Linear own{4, 4, made()}, teacher{4, 4, made()};
    explicit Student(bool hidden) {
      add("own", own);
      if (hidden) leave_out(teacher);
    }
    Tensor forward(const Tensor& x) override { return own(x) - teacher(x); }
  };
  Student hidden(true), forgotten(false);
  train(hidden);
  nn::Sequential list{hidden};
  EXPECT_EQ(list.parameters().size(), 2u);
  EXPECT_EQ(clone(list).parameters().size(), 2u);
  nn::Sequential wrong{forgotten};
  EXPECT_NE(message_of([&] { wrong.parameters(); }), "no error");
  EXPECT_NE(message_of([&] { train(forgotten); }), "no error");
}

TEST(Registration, PartsUnderSeveralNames) {
  struct Block : nn::Module {
    nn::Linear fc{4, 4, made()};
    Block() { add("fc", fc); }
    Tensor forward(const Tensor& x) override { return fc(x); }
  };
  struct Net : nn::Module {
    Block block;
    nn::Linear same = block.fc;  // a handle to the block's module
    std::optional<nn::Linear> none;
    nn::ModuleList<nn::Linear> list{nn::Linear(4, 4, made())};
    Net() {
      add("block", block);
      add("list", list);
    }
    Tensor forward(const Tensor& x) override { return same(list[0](block(x))); }
  };
  Net net;
  train(net);
  nn::Sequential list{net};
  EXPECT_EQ(list.parameters().size(), 4u);
}

// ---- Functions that change a module return it.

TEST(Module, MutatorsChain) {
  nn::Sequential model{nn::Linear(4, 4), nn::Dropout(0.5)};
  static_assert(std::is_same_v<decltype(model.eval()), nn::Module&>);
  nn::Module& same = model.eval().to(test_device()).requires_grad(false).zero_grad();
  EXPECT_EQ(&same, &model);
  EXPECT_FALSE(model.is_training());
  EXPECT_EQ(model.device(), test_device());
  EXPECT_FALSE(model.parameters()[0].requires_grad());
  model.train().to(test_device(), DType::f16).apply([](nn::Module& one) {
    EXPECT_TRUE(one.is_training());
  });
  EXPECT_EQ(model.to(DType::f32).parameters()[0].dtype(), DType::f32);
}

}  // namespace
}  // namespace volta
