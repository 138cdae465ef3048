// User-defined operations: an activation written as a C expression, with its gradient, and a
// function with a forward and a backward pass. Both run on every device; the expression fuses with
// the operations around it.
//   custom_op [device [epochs]]   device: cpu, cuda:0, opencl:0 ... (default: the best one present)
#include <volta/volta.h>

#include <cstdio>
#include <cstdlib>

using namespace volta;

// Swish, x / (1 + e^(-slope x)), with a learned slope that broadcasts. The gradient of each
// parameter is an expression of the parameters, the result y and its gradient g.
const ScalarFunction sloped_swish({.name = "sloped_swish",
                                   .parameters = "x, slope",
                                   .formula = "x * sigmoid(slope * x)",
                                   .gradients = {"g * sigmoid(slope * x) * (1 + slope * (x - y))",
                                                 "g * y * (x - y)"}});

// Rounds to eighths in the forward pass, and passes gradients through unchanged, so that
// low-precision weights can be trained.
const Function in_eighths(
    {.name = "in_eighths",
     .forward =
         [](FunctionContext&, const std::vector<Tensor>& in) {
           return std::vector<Tensor>{(in[0] * 8).round() / 8};
         },
     .backward = [](FunctionContext&, const std::vector<Tensor>& gradients) { return gradients; }});

struct Layer : nn::Module {
  nn::Parameter weight, bias, slope;

  Layer(std::int64_t in, std::int64_t out) {
    weight = add_parameter("weight", nn::init::xavier_normal({out, in}));
    bias = add_parameter("bias", zeros({out}));
    slope = add_parameter("slope", ones({out}));
  }
  Tensor forward(const Tensor& x) override {
    return sloped_swish(linear(x, in_eighths(*weight), bias), *slope);
  }
};

int main(int argc, char** argv) {
  const Device device = argc > 1 ? Device::parse(argv[1]) : Device::best();
  const int epochs = argc > 2 ? std::atoi(argv[2]) : 400;
  manual_seed(7);

  // The gradients above agree with finite differences.
  const Tensor x = tensor({-2, -0.5, 0, 0.5, 3}, {.device = device});
  const Tensor slope = full({5}, 1.5, {.device = device});
  const CheckReport report = check_gradients(
      [](const std::vector<Tensor>& in) { return sloped_swish(in[0], in[1]); }, {x, slope});
  std::printf("gradients of sloped_swish: %s\n", report.passed ? "right" : report.message.c_str());

  nn::Sequential model({{"hidden", Layer(1, 16)}, {"out", nn::Linear(16, 1)}});
  model.to(device);
  optim::Adam optimizer(model.parameters(), {.lr = 0.01});
  const Tensor inputs = linspace(-3, 3, 128, {.device = device}).reshape({128, 1});
  const Tensor targets = inputs.sin();
  for (int epoch = 0; epoch <= epochs; ++epoch) {
    optimizer.zero_grad();
    const Tensor loss = mse_loss(model(inputs), targets);
    loss.backward();
    optimizer.step();
    if (epoch % 100 == 0) std::printf("epoch %3d  loss %.6f\n", epoch, loss.item());
  }
  return report.passed ? 0 : 1;
}
