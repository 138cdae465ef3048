// Code that the kinds of calls share, and their table.
#include "plan/calls/call.h"

#include <memory>
#include <utility>

#include "backend/registry.h"
#include "plan/calls/attention.h"
#include "plan/calls/convolution.h"
#include "plan/calls/loop.h"
#include "plan/calls/matmul.h"
#include "plan/calls/sort.h"

namespace volta::plan {
namespace {

const char* text_of(Activation activation) {
  switch (activation) {
    case Activation::None:
      return "";
    case Activation::Relu:
      return ", relu";
    case Activation::Gelu:
      return ", gelu";
    case Activation::GeluGradient:
      return ", gelu's gradient";
  }
  return "";
}

}  // namespace

const Call* call_of(const Step& step) {
  static const Call* const calls[] = {&matmul_call(), &convolution_call(), &attention_call(),
                                      &sort_call(), &loop_call()};
  for (const Call* call : calls) {
    if (call->alternative() == step.index()) return call;
  }
  return nullptr;
}

void bind(Step& step, std::span<const BufferRef> reads, std::span<const BufferRef> writes,
          const BufferRef& scratch) {
  std::visit(
      [&](auto& call) {
        if constexpr (requires { call.scratch; }) call.scratch = scratch;
        if constexpr (requires { call.bind(reads, writes); }) call.bind(reads, writes);
      },
      step);
}

std::byte* HostBuffers::at(const BufferRef& buffer) const {
  const Address& address = buffer.kind == BufferRef::Kind::Leaf     ? leaves[buffer.index]
                           : buffer.kind == BufferRef::Kind::Output ? outputs[buffer.index]
                                                                    : arena;
  return static_cast<std::byte*>(address.pointer()) + buffer.offset;
}

std::optional<std::vector<Extent>> Call::with_epilogue(const std::vector<Value>&, const Value&,
                                                       const Epilogue&, const DeviceEntry&) const {
  return std::nullopt;
}

Reference Call::reference(PlanSteps plan) const {
  const std::shared_ptr<Executable> executable =
      device_entry(Device::cpu()).backend.prepare(0, plan);
  return [executable, words = plan.arg_words](const HostBuffers& host) {
    const std::vector<std::uint64_t> unused(words);
    executable->run(host.leaves, host.outputs, host.arena, unused);
  };
}

Arithmetic arithmetic_of(DType dtype, bool tf32) {
  if (dtype == DType::f16 || dtype == DType::bf16) return Arithmetic::Half;
  return tf32 ? Arithmetic::Tf32 : Arithmetic::Single;
}

std::string epilogue_text(bool has_bias, Activation activation) {
  return std::string(has_bias ? " + bias" : "") + text_of(activation);
}

Expr further_result(Lowering& lowering, Expr first, int number, DType dtype, const Shape& shape) {
  Value value{.kind = ValueKind::StepResult, .dtype = dtype, .shape = shape};
  value.in[0] = first.id;
  value.number = number;
  return lowering.insert(std::move(value));
}

}  // namespace volta::plan
