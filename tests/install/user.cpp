// A user's program: checks that an installed Volta compiles, links, computes and finds its
// backends.
#include <volta/volta.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2 || std::string(volta::version()) != argv[1]) {
    std::fprintf(stderr, "version %s, expected %s\n", volta::version(),
                 argc > 1 ? argv[1] : "none");
    return 1;
  }
  const volta::Tensor x = volta::tensor({1, 2, 3, 4}, {2, 2});
  const double total = volta::matmul(x, x).sum().item();
  std::printf("sum of the product: %g\n", total);
  for (const volta::Device device : volta::devices()) {
    std::printf("%s: %s\n", volta::to_string(device).c_str(), device.name().c_str());
  }
  return total == 54 ? 0 : 1;
}
