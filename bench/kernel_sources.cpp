// Prints docs/kernels.md: the generated CUDA and OpenCL source of representative kernels, as the
// planner chooses them for a GPU. Nothing is run: the kernels are planned for any OpenCL device.
#include <volta/volta.h>

#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "kernel/emit.h"
#include "kernel/observer.h"

using namespace volta;

namespace {

struct Example {
  bool last;
  std::string title, code, words;
  std::function<Tensor(Device)> record;
};

Tensor matrix(std::int64_t rows, std::int64_t columns, Device device) {
  return from_vector(std::vector<float>(static_cast<std::size_t>(rows * columns), 1.0f),
                     {rows, columns}, {.device = device});
}

std::vector<Example> examples() {
  return {
      {false, "A chain", "(x * y + 0.5).tanh() * x.sigmoid() + y * y - x   // 1024 x 1024",
       "`Map` with vectors: a thread loads 16 bytes of each operand, if one test of the addresses "
       "allows it.",
       [](Device device) {
         const Tensor x = matrix(1024, 1024, device), y = matrix(1024, 1024, device);
         return (x * y + 0.5).tanh() * x.sigmoid() + y * y - x;
       }},
      {false, "A transpose", "x.t() * 2   // 1024 x 1024",
       "`Map` with a tile: read along the rows of x, written along those of the result, through "
       "shared memory.",
       [](Device device) { return matrix(1024, 1024, device).t() * 2; }},
      {false, "Softmax", "x.softmax(1)   // 4096 x 1024",
       "`Row` in registers: 128 threads hold a row of 1024 from the first phase to the last.",
       [](Device device) { return matrix(4096, 1024, device).softmax(1); }},
      {false, "Softmax of rows that start anywhere", "x.softmax(1)   // 1024 x 50257",
       "`Row`, peeled: vectors from the first multiple of 16 bytes inside the row on; the elements "
       "before and after them belong to one lane each.",
       [](Device device) { return matrix(1024, 50257, device).softmax(1); }},
      {false, "Column sums", "x.sum(0)   // 4096 x 4096",
       "The rows in chunks side by side, a thread for each 4 columns of a chunk; then the chunks.",
       [](Device device) { return matrix(4096, 4096, device).sum(0); }},
      {true, "The gradient of an embedding",
       "index_add(table, 0, ids, rows)   // 5000 x 64, 2048 ids",
       "The ids are sorted first, by a template outside the kernel language. Whole chunks of equal "
       "ids are summed, then each row of the table adds its segment.",
       [](Device device) {
         std::vector<std::int64_t> ids(2048);
         for (std::size_t i = 0; i < ids.size(); ++i)
           ids[i] = static_cast<std::int64_t>(i * 2654435761u % 5000);
         return index_add(matrix(5000, 64, device), 0, from_vector(ids, {.device = device}),
                          matrix(2048, 64, device));
       }},
  };
}

// Returns the kernel without the device functions and type names before it.
std::string body(const kernel::Program& program, kernel::Dialect dialect) {
  const std::string text = kernel::emit(program, dialect).text;
  const std::size_t integers = text.rfind("typedef struct {\n  index_t");
  if (integers != std::string::npos) return text.substr(integers);
  return text.substr(text.rfind(dialect == kernel::Dialect::Cuda ? "extern \"C\"" : "__kernel"));
}

}  // namespace

int main() {
  try {
    const Device device = Device::parse("opencl:0");
    std::cout
        << "# What the emitter prints\n\nMade by `bench/kernel_sources.cpp` (`volta_kernel_sources "
           "> "
           "docs/kernels.md`). One program, two dialects; the type names and device functions in "
           "front of each kernel are left out. Sizes and strides are parameters `p0`, `p1`, ...; "
           "`s0`, `s1`, ... are the buffers.\n";
    for (const Example& example : examples()) {
      std::vector<kernel::Program> programs;
      const Tensor result = example.record(device);
      kernel::set_program_observer(
          [&](const kernel::Program& program) { programs.push_back(program); });
      explain(result);
      kernel::set_program_observer({});
      std::cout << "\n## " << example.title << "\n`" << example.code << "`\n\n"
                << example.words << "\n";
      // Only one kernel of the plan is shown.
      const kernel::Program& program = example.last ? programs.back() : programs.front();
      std::cout << "\nProgram:\n```\n"
                << kernel::to_text(program) << "\n```\nCUDA:\n```c++\n"
                << body(program, kernel::Dialect::Cuda) << "```\nOpenCL:\n```c\n"
                << body(program, kernel::Dialect::OpenCL) << "```\n";
    }
  } catch (const std::exception& error) {
    std::cerr << "volta_kernel_sources: " << error.what() << "\n";
    return 1;
  }
}
