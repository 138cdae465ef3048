// Benchmarks of the CPU executor alone: an elementwise chain compared with a copy, row programs,
// products, and the overhead of a tiny kernel.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "backend/cpu_backend.h"
#include "kernel/program.h"

namespace {

using namespace volta;
using kernel::Affine;
using kernel::Instr;
using kernel::InstrKind;
using kernel::Int;
using kernel::ReduceOp;
using kernel::Role;
using kernel::ScalarOp;
using plan::BufferRef;

struct Builder {
  kernel::Program program;

  int push(Instr instr) {
    if (instr.kind == InstrKind::Load)
      program.slots[static_cast<std::size_t>(instr.slot)].read = true;
    if (instr.kind == InstrKind::Store)
      program.slots[static_cast<std::size_t>(instr.slot)].written = true;
    program.instrs.push_back(std::move(instr));
    return static_cast<int>(program.instrs.size()) - 1;
  }
  int slot(DType dtype = DType::f32) {
    program.slots.push_back({dtype});
    return static_cast<int>(program.slots.size()) - 1;
  }
  Int axis(Role role) {
    const Int extent = Int::param(program.int_params++);
    program.axes.push_back({extent, role});
    return extent;
  }
  int load(int slot, Affine index) {
    return push({.kind = InstrKind::Load, .slot = slot, .index = std::move(index)});
  }
  void store(int slot, Affine index, int a) {
    push({.kind = InstrKind::Store, .a = a, .slot = slot, .index = std::move(index)});
  }
  int op(ScalarOp op, int a, int b = -1) {
    return push({.kind = InstrKind::Op, .op = op, .a = a, .b = b});
  }
  int constant(double value) { return push({.kind = InstrKind::Const, .constant = value}); }
  int reduce(ReduceOp op, int a) { return push({.kind = InstrKind::Reduce, .reduce = op, .a = a}); }
};

// Kernel steps over one set of buffers, ready to run.
class Plan {
 public:
  Plan() : backend_(make_cpu_backend()) {}
  ~Plan() {
    for (const Address memory : outputs_) backend_->release(0, memory);
  }

  void add(const kernel::Program& program, std::vector<std::int64_t> ints,
           const std::vector<int>& buffers) {
    plan::Binding binding{std::move(ints), {}, 0};
    for (const int buffer : buffers) {
      binding.buffers.push_back({BufferRef::Kind::Output, static_cast<std::uint32_t>(buffer), 0});
    }
    steps_.steps.emplace_back(plan::KernelStep{
        std::make_shared<const kernel::Program>(program), {std::move(binding)}, "bench"});
  }
  void add(plan::MatmulStep step, int a, int b, int c) {
    step.a = {BufferRef::Kind::Output, static_cast<std::uint32_t>(a), 0};
    step.b = {BufferRef::Kind::Output, static_cast<std::uint32_t>(b), 0};
    step.c = {BufferRef::Kind::Output, static_cast<std::uint32_t>(c), 0};
    steps_.steps.emplace_back(std::move(step));
  }
  int buffer(std::int64_t elements) {
    outputs_.push_back(backend_->allocate(0, static_cast<std::size_t>(elements) * sizeof(float)));
    std::fill_n(static_cast<float*>(outputs_.back().base), elements, 0.5f);
    return static_cast<int>(outputs_.size()) - 1;
  }
  void run() {
    if (executable_ == nullptr) executable_ = backend_->prepare(0, steps_);
    executable_->run({}, outputs_, {}, {});
  }

 private:
  std::unique_ptr<Backend> backend_;
  plan::PlanSteps steps_;
  std::vector<Address> outputs_;
  std::unique_ptr<Executable> executable_;
};

void bytes_moved(benchmark::State& state, std::int64_t bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * bytes);
}

void copy(benchmark::State& state) {
  const std::size_t n = static_cast<std::size_t>(state.range(0));
  std::vector<float> from(n, 1), to(n, 2);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), n * sizeof(float));
    benchmark::ClobberMemory();
  }
  bytes_moved(state, static_cast<std::int64_t>(2 * n * sizeof(float)));
}
BENCHMARK(copy)->Arg(10'000'000)->UseRealTime();

// Eight cheap operations on one input.
void chain(benchmark::State& state) {
  Builder b;
  b.axis(Role::Par);
  const Affine here{{{0, Int::literal(1)}}, {}};
  const int x = b.slot(), y = b.slot();
  const int input = b.load(x, here), two = b.constant(2), half = b.constant(0.5);
  int value = b.op(ScalarOp::mul, input, two);
  value = b.op(ScalarOp::sub, value, half);
  value = b.op(ScalarOp::maximum, value, input);
  value = b.op(ScalarOp::mul, value, value);
  value = b.op(ScalarOp::sub, value, input);
  value = b.op(ScalarOp::minimum, value, two);
  value = b.op(ScalarOp::sub, value, half);
  value = b.op(ScalarOp::abs, value);
  b.store(y, here, value);
  Plan runner;
  runner.add(b.program, {state.range(0)},
             {runner.buffer(state.range(0)), runner.buffer(state.range(0))});
  for (auto _ : state) runner.run();
  bytes_moved(state, 8 * state.range(0));
}
BENCHMARK(chain)->Arg(10'000'000)->UseRealTime();

void unary(benchmark::State& state, ScalarOp op) {
  Builder b;
  b.axis(Role::Par);
  const Affine here{{{0, Int::literal(1)}}, {}};
  const int x = b.slot(), y = b.slot();
  b.store(y, here, b.op(op, b.load(x, here)));
  Plan runner;
  runner.add(b.program, {1'000'000}, {runner.buffer(1'000'000), runner.buffer(1'000'000)});
  for (auto _ : state) runner.run();
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * 1'000'000);
}
BENCHMARK_CAPTURE(unary, exp, ScalarOp::exp)->UseRealTime();
BENCHMARK_CAPTURE(unary, log, ScalarOp::log)->UseRealTime();
BENCHMARK_CAPTURE(unary, tanh, ScalarOp::tanh)->UseRealTime();
BENCHMARK_CAPTURE(unary, erf, ScalarOp::erf)->UseRealTime();
BENCHMARK_CAPTURE(unary, sin, ScalarOp::sin)->UseRealTime();

// x + bias over [rows, columns], the bias along the last axis.
void bias(benchmark::State& state) {
  Builder b;
  b.axis(Role::Par);
  const Int columns = b.axis(Role::Par);
  const Affine here{{{0, columns}, {1, Int::literal(1)}}, {}};
  const int x = b.slot(), w = b.slot(), y = b.slot();
  b.store(y, here, b.op(ScalarOp::add, b.load(x, here), b.load(w, {{{1, Int::literal(1)}}, {}})));
  const std::int64_t n = 1'000'000 / state.range(0) * state.range(0);
  Plan runner;
  runner.add(b.program, {n / state.range(0), state.range(0)},
             {runner.buffer(n), runner.buffer(state.range(0)), runner.buffer(n)});
  for (auto _ : state) runner.run();
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * n);
}
BENCHMARK(bias)->Arg(2)->Arg(8)->Arg(10)->Arg(31)->Arg(100)->Arg(1000)->UseRealTime();

void transpose(benchmark::State& state) {
  Builder b;
  const Int rows = b.axis(Role::Par), columns = b.axis(Role::Par);
  const int x = b.slot(), y = b.slot();
  const int value = b.load(x, {{{0, Int::literal(1)}, {1, rows}}, {}});
  b.store(y, {{{0, columns}, {1, Int::literal(1)}}, {}}, value);
  const std::int64_t n = state.range(0);
  Plan runner;
  runner.add(b.program, {n, n}, {runner.buffer(n * n), runner.buffer(n * n)});
  for (auto _ : state) runner.run();
  bytes_moved(state, 8 * n * n);
}
BENCHMARK(transpose)->Arg(1024)->UseRealTime();

kernel::Program softmax_program(int lanes) {
  Builder b;
  b.axis(Role::Par);
  const Int length = b.axis(Role::Red);
  b.program.schedule = {.kind = kernel::ScheduleKind::Row, .lanes = lanes};
  const Affine here{{{0, length}, {1, Int::literal(1)}}, {}};
  const int x = b.slot(), y = b.slot();
  const int value = b.load(x, here);
  const int e = b.op(ScalarOp::exp, b.op(ScalarOp::sub, value, b.reduce(ReduceOp::Max, value)));
  b.store(y, here, b.op(ScalarOp::div, e, b.reduce(ReduceOp::Sum, e)));
  return b.program;
}

void softmax(benchmark::State& state) {
  const std::int64_t rows = state.range(0), length = state.range(1);
  Plan runner;
  runner.add(softmax_program(static_cast<int>(state.range(2))), {rows, length},
             {runner.buffer(rows * length), runner.buffer(rows * length)});
  for (auto _ : state) runner.run();
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * rows * length);
}
BENCHMARK(softmax)
    ->Args({100'000, 10, 1})
    ->Args({10'000, 128, 32})
    ->Args({1'000, 1'000, 128})
    ->Args({64, 50'000, 1024})
    ->UseRealTime();

// Sums over the last axis (lanes > 1) or over the first axis (lanes == 1).
void sums(benchmark::State& state) {
  const std::int64_t rows = state.range(0), columns = state.range(1);
  const bool along = state.range(2) > 1;
  Builder b;
  const Int kept = b.axis(Role::Par), reduced = b.axis(Role::Red);
  b.program.schedule = {.kind = kernel::ScheduleKind::Row,
                        .lanes = static_cast<int>(state.range(2))};
  const int x = b.slot(), y = b.slot();
  const Affine index = along ? Affine{{{0, reduced}, {1, Int::literal(1)}}, {}}
                             : Affine{{{0, Int::literal(1)}, {1, kept}}, {}};
  b.store(y, {{{0, Int::literal(1)}}, {}}, b.reduce(ReduceOp::Sum, b.load(x, index)));
  Plan runner;
  runner.add(b.program, along ? std::vector{rows, columns} : std::vector{columns, rows},
             {runner.buffer(rows * columns), runner.buffer(along ? rows : columns)});
  for (auto _ : state) runner.run();
  bytes_moved(state, 4 * rows * columns);
}
BENCHMARK(sums)
    ->Args({10'000, 1'000, 128})
    ->Args({10'000, 1'000, 1})
    ->Args({1'000'000, 10, 1})
    ->UseRealTime();

// Nine kernels of 4 x 8 elements, which show the overhead of a tiny model's step.
void tiny_kernels(benchmark::State& state) {
  Builder b;
  b.axis(Role::Par);
  const Int columns = b.axis(Role::Par);
  const Affine here{{{0, columns}, {1, Int::literal(1)}}, {}};
  const int x = b.slot(), w = b.slot(), y = b.slot();
  const int sum = b.op(ScalarOp::add, b.load(x, here), b.load(w, {{{1, Int::literal(1)}}, {}}));
  b.store(y, here, b.op(ScalarOp::maximum, sum, b.constant(0)));
  Plan runner;
  const int from = runner.buffer(32), bias = runner.buffer(8), to = runner.buffer(32);
  for (int n = 0; n < 9; ++n) runner.add(b.program, {4, 8}, {from, bias, to});
  for (auto _ : state) runner.run();
}
BENCHMARK(tiny_kernels);

// A product of 4 x 8 by 8 x 8 as a reduction.
void tiny_product(benchmark::State& state) {
  Builder b;
  const Int m = b.axis(Role::Par), n = b.axis(Role::Par), k = b.axis(Role::Red);
  (void)m;
  b.program.schedule.kind = kernel::ScheduleKind::Row;
  const int x = b.slot(), w = b.slot(), y = b.slot();
  const int left = b.load(x, {{{0, k}, {2, Int::literal(1)}}, {}});
  const int right = b.load(w, {{{1, Int::literal(1)}, {2, n}}, {}});
  b.store(y, {{{0, n}, {1, Int::literal(1)}}, {}},
          b.reduce(ReduceOp::Sum, b.op(ScalarOp::mul, left, right)));
  const std::int64_t size = state.range(0);
  Plan runner;
  runner.add(
      b.program, {size / 2, size, size},
      {runner.buffer(size * size / 2), runner.buffer(size * size), runner.buffer(size * size / 2)});
  for (auto _ : state) runner.run();
}
BENCHMARK(tiny_product)->Arg(8)->Arg(16)->Arg(32)->Arg(50)->UseRealTime();

void product(benchmark::State& state) {
  const std::int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  Plan runner;
  const int a = runner.buffer(m * k), b = runner.buffer(k * n), c = runner.buffer(m * n);
  plan::MatmulStep step;
  step.m = m;
  step.n = step.ldb = step.ldc = n;
  step.k = step.lda = k;
  runner.add(step, a, b, c);
  for (auto _ : state) runner.run();
  state.counters["GFLOPS"] = benchmark::Counter(2e-9 * static_cast<double>(m * n * k),
                                                benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(product)
    ->Args({64, 64, 64})
    ->Args({1024, 1024, 1024})
    ->Args({10, 784, 60'000})
    ->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
