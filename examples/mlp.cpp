// A classifier trained on data made on the device: ten patterns under noise, told apart by an MLP
// 784-1024-1024-10. Prints loss and accuracy, then saves the model and loads it again.
//   mlp [device [steps]]      device: cpu, cuda:0, opencl:0 ... (default: the best one present)
#include <volta/volta.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

using namespace volta;

struct MLP : nn::Module {
  nn::Linear fc1{784, 1024};
  nn::Linear fc2{1024, 1024};
  nn::Linear fc3{1024, 10};

  MLP() {
    add("fc1", fc1);
    add("fc2", fc2);
    add("fc3", fc3);
  }

  Tensor forward(const Tensor& x) override { return fc3(fc2(fc1(x).relu()).relu()); }
};

int main(int argc, char** argv) try {
  const Device device = argc > 1 ? Device::parse(argv[1]) : Device::best();
  const int steps = argc > 2 ? std::atoi(argv[2]) : 100;
  manual_seed(7);

  const Tensor patterns = randn({10, 784}, {.device = device}).eval();
  const auto batch = [&](int64_t size) {
    Tensor labels = randint(0, 10, {size}, {.device = device});
    Tensor images = embedding(patterns, labels) + 6.0f * randn({size, 784}, {.device = device});
    return std::pair(images, labels);
  };
  const auto [test_x, test_y] = batch(2000);
  const auto accuracy = [&](nn::Module& model) {
    NoGrad no_grad;
    return 100 * model(test_x).argmax(1).eq(test_y).to(DType::f32).mean().item();
  };

  MLP model;
  model.to(device);
  optim::Adam opt(model.parameters(), {.lr = 1e-3});
  for (int step = 0; step <= steps; ++step) {
    const auto [x, y] = batch(128);
    opt.zero_grad();
    Tensor loss = cross_entropy(model(x), y);
    loss.backward();
    opt.step();
    if (step % 25 == 0) {
      std::printf("step %3d  loss %.4f  test accuracy %.1f%%\n", step, loss.item(),
                  accuracy(model));
    }
  }

  save(model.state_dict(), "mlp.safetensors");
  MLP again;
  again.to(device);
  again.load_state_dict(load("mlp.safetensors"));
  std::printf("after loading    test accuracy %.1f%%\n", accuracy(again));
} catch (const Error& error) {
  std::fprintf(stderr, "mlp: %s\n", error.what());
  return 1;
}
