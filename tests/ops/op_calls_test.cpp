// The table of calls, and properties of every call on the device under test.
#include "ops/op_calls.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "ops/conformance/conformance.h"
#include "ops/op_declarations.h"
#include "runtime/device_work.h"
#include "support/test_device.h"

namespace volta::calls {
namespace {

using Role = Input::Role;

Input value(const Shape& shape) { return {Role::value, shape}; }
Input index(const Shape& shape) { return {Role::index, shape}; }
Input mask(const Shape& shape) { return {Role::mask, shape}; }

const Input kMatrix = value({2, 3});
const Input kLarge = value({64, 64});  // a product with another one is too large for a kernel

template <class Function>
Call call(std::string op, std::vector<Input> inputs, Function function, std::string result = {}) {
  return {std::move(op), std::move(inputs),
          [function](const Tensors& in) -> Tensors {
            if constexpr (std::is_convertible_v<decltype(function(in)), Tensors>) {
              return function(in);
            } else {
              return {Tensor(function(in))};
            }
          },
          std::move(result)};
}

// A call that copies its operands to the device of the tensor that it writes to.
Call moving(Call one) {
  one.moves = true;
  return one;
}

Tensors both(const Sorted& sorted) { return {sorted.values, sorted.indices}; }

// Changes a variable and returns it.
template <class Change>
auto changed(Change change) {
  return [change](const Tensors& in) {
    Tensor x = in[0];
    change(x, in);
    return x;
  };
}

using List = std::vector<std::int64_t>;

#define VOLTA_CALL(name, arguments, ...) \
  call(#name, std::vector<Input> arguments, [](const Tensors& in) { return __VA_ARGS__; })

std::vector<Call> elementwise() {
  return {
#define VOLTA_UNARY(name) VOLTA_CALL(name, ({kMatrix}), volta::name(in[0])),
#define VOLTA_TEST(name) VOLTA_CALL(name, ({kMatrix}), volta::name(in[0])),
#define VOLTA_BINARY(name) VOLTA_CALL(name, ({kMatrix, kMatrix}), volta::name(in[0], in[1])),
#include "ops/elementwise_rows.def"
      VOLTA_CALL(where, ({mask({2, 3}), kMatrix, kMatrix}), where(in[0], in[1], in[2])),
      VOLTA_CALL(mulacc, ({kMatrix, kMatrix, kMatrix}), mulacc(in[0], in[1], in[2])),
      VOLTA_CALL(lerp, ({kMatrix, kMatrix, kMatrix}), lerp(in[0], in[1], in[2])),
      VOLTA_CALL(addcmul, ({kMatrix, kMatrix, kMatrix}), addcmul(in[0], in[1], in[2])),
      VOLTA_CALL(addcdiv, ({kMatrix, kMatrix, kMatrix}), addcdiv(in[0], in[1], in[2])),
      VOLTA_CALL(clamp, ({kMatrix, kMatrix, kMatrix}), clamp(in[0], in[1], in[2])),
      VOLTA_CALL(clamp, ({kMatrix, kMatrix}), clamp(in[0], in[1], {})),
      VOLTA_CALL(clamp, ({kMatrix, kMatrix}), clamp(in[0], {}, in[1])),
      VOLTA_CALL(clamp, ({kMatrix}), clamp(in[0], -0.5, {})),
      VOLTA_CALL(clamp, ({kMatrix}), clamp(in[0], {}, 0.5)),
      VOLTA_CALL(gelu, ({kMatrix}), gelu(in[0], {.tanh = true})),
      VOLTA_CALL(swish, ({kMatrix}), swish(in[0])),
      VOLTA_CALL(leaky_relu, ({kMatrix}), leaky_relu(in[0])),
      VOLTA_CALL(elu, ({kMatrix}), elu(in[0])),
      VOLTA_CALL(softplus, ({kMatrix}), softplus(in[0])),
  };
}

std::vector<Call> movement() {
  return {
      VOLTA_CALL(pad, ({kMatrix}), pad(in[0], List{1, 0}, List{0, 1})),
      VOLTA_CALL(pad, ({kMatrix}), pad(in[0], List{0, 1}, List{0, 2}, {.mode = PadMode::reflect})),
      VOLTA_CALL(concat, ({kMatrix, kMatrix}), concat({in[0], in[1]}, 1)),
      VOLTA_CALL(cat, ({kMatrix, kMatrix}), cat({in[0], in[1]})),
      VOLTA_CALL(stack, ({kMatrix, kMatrix}), stack({in[0], in[1]}, 1)),
      VOLTA_CALL(reshape, ({kMatrix}), reshape(in[0], {3, 2})),
      VOLTA_CALL(flatten, ({kMatrix}), flatten(in[0])),
      VOLTA_CALL(permute, ({kMatrix}), permute(in[0], List{1, 0})),
      VOLTA_CALL(transpose, ({kMatrix}), transpose(in[0], 0, 1)),
      VOLTA_CALL(squeeze, ({value({1, 3})}), squeeze(in[0], 0)),
      VOLTA_CALL(unsqueeze, ({kMatrix}), unsqueeze(in[0], 1)),
      VOLTA_CALL(narrow, ({kMatrix}), narrow(in[0], 1, 1, 2)),
      VOLTA_CALL(flip, ({kMatrix}), flip(in[0], List{1})),
      VOLTA_CALL(roll, ({kMatrix}), roll(in[0], 1, 1)),
      VOLTA_CALL(tile, ({kMatrix}), tile(in[0], List{2, 2})),
      VOLTA_CALL(split, ({kMatrix}), split(in[0], 2, 1)),
      VOLTA_CALL(chunk, ({kMatrix}), chunk(in[0], 2, 1)),
  };
}

std::vector<Call> reductions() {
  return {
      VOLTA_CALL(sum, ({kMatrix}), sum(in[0], 1)),
      VOLTA_CALL(mean, ({kMatrix}), mean(in[0], 1)),
      VOLTA_CALL(prod, ({kMatrix}), prod(in[0], 1)),
      VOLTA_CALL(max, ({kMatrix}), max(in[0], 1)),
      VOLTA_CALL(max, ({kMatrix}), max(in[0])),
      VOLTA_CALL(min, ({kMatrix}), min(in[0], 1)),
      VOLTA_CALL(min, ({kMatrix}), min(in[0])),
      VOLTA_CALL(any, ({kMatrix}), any(in[0], 1)),
      VOLTA_CALL(all, ({kMatrix}), volta::all(in[0], 1)),
      VOLTA_CALL(var, ({kMatrix}), var(in[0], 1)),
      VOLTA_CALL(std, ({kMatrix}), volta::std(in[0], 1)),
      VOLTA_CALL(norm, ({kMatrix}), norm(in[0], 2, 1)),
      VOLTA_CALL(logsumexp, ({kMatrix}), logsumexp(in[0], 1)),
      VOLTA_CALL(argmax, ({kMatrix}), argmax(in[0], 1)),
      VOLTA_CALL(argmin, ({kMatrix}), argmin(in[0], 1)),
      VOLTA_CALL(softmax, ({kMatrix}), softmax(in[0], 1)),
      VOLTA_CALL(log_softmax, ({kMatrix}), log_softmax(in[0], 1)),
      VOLTA_CALL(cumsum, ({kMatrix}), cumsum(in[0], 1)),
  };
}

std::vector<Call> products() {
  return {
      VOLTA_CALL(matmul, ({kLarge, kLarge}), matmul(in[0], in[1])),
      VOLTA_CALL(bmm, ({value({2, 64, 64}), value({2, 64, 64})}), bmm(in[0], in[1])),
      VOLTA_CALL(dot, ({value({6}), value({6})}), dot(in[0], in[1])),
      VOLTA_CALL(outer, ({value({6}), value({5})}), outer(in[0], in[1])),
      VOLTA_CALL(einsum, ({kLarge, kLarge}), einsum("ij,kj->ik", {in[0], in[1]})),
      VOLTA_CALL(linear, ({kLarge, kLarge, value({64})}), linear(in[0], in[1], in[2])),
  };
}

std::vector<Call> convolutions() {
  const Input line = value({2, 8, 40}), image = value({2, 8, 10, 10});
  const Input kernel = value({16, 8, 3}), square = value({16, 8, 3, 3}), bias = value({16});
  const Input back = value({8, 16, 3}), back_square = value({8, 16, 3, 3});
  return {
      VOLTA_CALL(conv1d, ({line, kernel, bias}), conv1d(in[0], in[1], in[2])),
      VOLTA_CALL(conv2d, ({image, square, bias}), conv2d(in[0], in[1], in[2])),
      VOLTA_CALL(conv_transpose1d, ({line, back, bias}), conv_transpose1d(in[0], in[1], in[2])),
      VOLTA_CALL(conv_transpose2d, ({image, back_square, bias}),
                 conv_transpose2d(in[0], in[1], in[2])),
  };
}

std::vector<Call> pooling() {
  const Input line = value({2, 4, 9}), image = value({2, 4, 6, 6});
  return {
      VOLTA_CALL(max_pool2d, ({image}), max_pool2d(in[0], 2)),
      VOLTA_CALL(avg_pool2d, ({image}), avg_pool2d(in[0], 2)),
      VOLTA_CALL(adaptive_avg_pool2d, ({image}), adaptive_avg_pool2d(in[0], 4)),
      VOLTA_CALL(max_pool1d, ({line}), max_pool1d(in[0], 2)),
      VOLTA_CALL(avg_pool1d, ({line}), avg_pool1d(in[0], 2)),
      VOLTA_CALL(adaptive_avg_pool1d, ({line}), adaptive_avg_pool1d(in[0], 4)),
      VOLTA_CALL(interpolate, ({image}), interpolate(in[0], {.size = 9})),
      VOLTA_CALL(pixel_shuffle, ({image}), pixel_shuffle(in[0], 2)),
      VOLTA_CALL(pixel_unshuffle, ({image}), pixel_unshuffle(in[0], 2)),
  };
}

std::vector<Call> attention() {
  const Input q = value({2, 4, 32, 16}), kv = value({2, 2, 32, 16});
  return {
      VOLTA_CALL(scaled_dot_product_attention, ({q, kv, kv, mask({32, 32})}),
                 scaled_dot_product_attention(in[0], in[1], in[2], {.mask = in[3]})),
  };
}

std::vector<Call> recurrences() {
  return {
      VOLTA_CALL(recurrent, ({value({3, 2, 16}), value({16, 4}), value({16})}),
                 recurrent(Cell::lstm, in[0], in[1], in[2]).output),
  };
}

std::vector<Call> normalization() {
  const Input image = value({2, 4, 3, 5}), by_channel = value({4});
  return {
      VOLTA_CALL(batch_norm, ({image, by_channel, by_channel, by_channel, by_channel}),
                 batch_norm(in[0], in[1], in[2], in[3], in[4], {.training = true})),
      VOLTA_CALL(batch_norm, ({image, by_channel, by_channel}), batch_norm(in[0], in[1], in[2])),
      VOLTA_CALL(group_norm, ({image, by_channel, by_channel}), group_norm(in[0], 2, in[1], in[2])),
      VOLTA_CALL(instance_norm, ({image, by_channel, by_channel}),
                 instance_norm(in[0], in[1], in[2])),
  };
}

std::vector<Call> indexing() {
  const Input table = value({4, 3}), rows = index({2}), cells = index({2, 3});
  return {
      VOLTA_CALL(embedding, ({table, rows}), embedding(in[0], in[1])),
      VOLTA_CALL(index_select, ({table, rows}), index_select(in[0], 0, in[1])),
      VOLTA_CALL(index_add, ({table, rows, kMatrix}), index_add(in[0], 0, in[1], in[2])),
      VOLTA_CALL(gather, ({table, cells}), gather(in[0], 0, in[1])),
      VOLTA_CALL(take_along_axis, ({table, cells}), take_along_axis(in[0], in[1], 0)),
      VOLTA_CALL(scatter, ({table, cells, kMatrix}), scatter(in[0], 0, in[1], in[2])),
      VOLTA_CALL(scatter_add, ({table, cells, kMatrix}), scatter_add(in[0], 0, in[1], in[2])),
      VOLTA_CALL(masked_fill, ({kMatrix, mask({2, 3})}), masked_fill(in[0], in[1], 0)),
      VOLTA_CALL(masked_select, ({kMatrix, mask({2, 3})}), masked_select(in[0], in[1])),
      VOLTA_CALL(masked_select, ({kMatrix, mask({2, 3})}),
                 masked_select(in[0], in[1], {.size = 4})),
      VOLTA_CALL(nonzero, ({kMatrix}), nonzero(in[0])),
      VOLTA_CALL(nonzero, ({kMatrix}), nonzero(in[0], {.size = 4})),
      VOLTA_CALL(one_hot, ({index({4})}), one_hot(in[0], 3)),
      VOLTA_CALL(tril, ({kMatrix}), tril(in[0])),
      VOLTA_CALL(triu, ({kMatrix}), triu(in[0])),
      VOLTA_CALL(sort, ({kMatrix}), both(sort(in[0]))),
      VOLTA_CALL(argsort, ({kMatrix}), argsort(in[0])),
      VOLTA_CALL(topk, ({kMatrix}), both(topk(in[0], 2))),
  };
}

std::vector<Call> networks() {
  return {
      VOLTA_CALL(layer_norm, ({kMatrix, value({3}), value({3})}),
                 layer_norm(in[0], {3}, in[1], in[2])),
      VOLTA_CALL(dropout, ({kMatrix}), dropout(in[0], 0.5)),
  };
}

std::vector<Call> losses() {
  const Input labels = index({2}), by_class = value({3});
  return {
      VOLTA_CALL(mse_loss, ({kMatrix, kMatrix}), mse_loss(in[0], in[1])),
      VOLTA_CALL(l1_loss, ({kMatrix, kMatrix}), l1_loss(in[0], in[1])),
      VOLTA_CALL(smooth_l1_loss, ({kMatrix, kMatrix}), smooth_l1_loss(in[0], in[1])),
      VOLTA_CALL(huber_loss, ({kMatrix, kMatrix}), huber_loss(in[0], in[1])),
      VOLTA_CALL(binary_cross_entropy, ({kMatrix, kMatrix, by_class}),
                 binary_cross_entropy(in[0], in[1], {.weight = in[2]})),
      VOLTA_CALL(
          binary_cross_entropy_with_logits, ({kMatrix, kMatrix, by_class, by_class}),
          binary_cross_entropy_with_logits(in[0], in[1], {.weight = in[2], .pos_weight = in[3]})),
      VOLTA_CALL(kl_div, ({kMatrix, kMatrix}), kl_div(in[0], in[1])),
      VOLTA_CALL(kl_div, ({kMatrix, kMatrix}), kl_div(in[0], in[1], {.log_target = true})),
      VOLTA_CALL(gaussian_kl, ({kMatrix, kMatrix}), gaussian_kl(in[0], in[1])),
      VOLTA_CALL(nll_loss, ({kMatrix, labels, by_class}),
                 nll_loss(in[0], in[1], {.weight = in[2]})),
      VOLTA_CALL(cross_entropy, ({kMatrix, labels}), cross_entropy(in[0], in[1])),
  };
}

std::vector<Call> methods() {
  const std::string asked = "the dtype asked for";
  return {
      call(
          "to", {kMatrix}, [](const Tensors& in) { return in[0].to(DType::f32); }, asked),
      call(
          "to", {kMatrix}, [](const Tensors& in) { return in[0].to(DType::i32); }, asked),
      VOLTA_CALL(clone, ({kMatrix}), in[0].clone()),
      VOLTA_CALL(pin_memory, ({kMatrix}),
                 in[0].device().is_cpu() ? in[0].pin_memory() : in[0].clone()),
      call("operator+=", {kMatrix, kMatrix}, changed([](Tensor& x, auto& in) { x += in[1]; })),
      call("operator-=", {kMatrix, kMatrix}, changed([](Tensor& x, auto& in) { x -= in[1]; })),
      call("operator*=", {kMatrix, kMatrix}, changed([](Tensor& x, auto& in) { x *= in[1]; })),
      call("operator/=", {kMatrix, kMatrix}, changed([](Tensor& x, auto& in) { x /= in[1]; })),
      call("fill_", {kMatrix}, changed([](Tensor& x, auto&) { x.fill_(1); })),
      call("zero_", {kMatrix}, changed([](Tensor& x, auto&) { x.zero_(); })),
      moving(
          call("copy_", {kMatrix, kMatrix}, changed([](Tensor& x, auto& in) { x.copy_(in[1]); }))),
      call("operator[]", {kMatrix}, [](const Tensors& in) { return in[0][1]; }),
      call("operator[]", {kMatrix, index({2})}, [](const Tensors& in) { return in[0][in[1]]; }),
      call("operator[]", {kMatrix, mask({2})}, [](const Tensors& in) { return in[0][in[1]]; }),
      moving(call("operator[]", {kMatrix, value({3})},
                  changed([](Tensor& x, auto& in) { x[1] = in[1]; }))),
      moving(call("operator[]", {kMatrix, index({2}), value({3})},
                  changed([](Tensor& x, auto& in) { x[in[1]] = in[2]; }))),
      moving(call("operator[]", {kMatrix, mask({2}), value({3})},
                  changed([](Tensor& x, auto& in) { x[in[1]] = in[2]; }))),
      VOLTA_CALL(index, ({kMatrix, index({3})}), in[0].index({Slice{}, in[1]})),
      VOLTA_CALL(slice, ({kMatrix}), in[0].slice(1, 0, 3, 2)),
      VOLTA_CALL(view, ({kMatrix}), in[0].view({3, 2})),
      VOLTA_CALL(unflatten, ({value({6})}), in[0].unflatten(0, {2, 3})),
      VOLTA_CALL(t, ({kMatrix}), in[0].t()),
      VOLTA_CALL(expand, ({value({1, 3})}), in[0].expand({2, 3})),
      VOLTA_CALL(shrink, ({kMatrix}), in[0].shrink({{0, 1}, {1, 3}})),
      VOLTA_CALL(stride, ({kMatrix}), in[0].stride({1, -2})),
      VOLTA_CALL(unfold, ({kMatrix}), in[0].unfold(1, 2, 1)),
      VOLTA_CALL(repeat, ({kMatrix}), in[0].repeat({2, 2})),
      VOLTA_CALL(repeat_interleave, ({kMatrix}), in[0].repeat_interleave(2, 1)),
  };
}

}  // namespace

const std::vector<Call>& all() {
  static const std::vector<Call> calls = [] {
    std::vector<Call> every;
    for (const auto& family :
         {elementwise, movement, reductions, products, convolutions, pooling, attention,
          recurrences, normalization, indexing, networks, losses, methods}) {
      for (Call& one : family()) every.push_back(std::move(one));
    }
    return every;
  }();
  return calls;
}

std::vector<const Call*> of(const std::string& op) {
  std::vector<const Call*> found;
  for (const Call& one : all()) {
    if (one.op == op) found.push_back(&one);
  }
  return found;
}

DType usual_dtype(const Input& input) {
  return input.role == Role::value   ? DType::f32
         : input.role == Role::index ? DType::i64
                                     : DType::boolean;
}

Tensor made(const Input& input, DType dtype, Device device) {
  std::vector<double> values(static_cast<std::size_t>(input.shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = input.role == Role::value ? 0.25 * static_cast<double>(1 + i % 16)
                                          : static_cast<double>(i % 2);
  return from_vector(values, input.shape).to(dtype).to(device).eval();
}

Tensors usual_inputs(const Call& call, Device device) {
  Tensors inputs;
  for (const Input& input : call.inputs) inputs.push_back(made(input, usual_dtype(input), device));
  return inputs;
}

namespace {

TEST(OpCalls, EveryOperationOfTheHeadersIsCalled) {
  std::set<std::string> declared, called;
  for (const declarations::Group& group : declarations::public_operations()) {
    for (const declarations::Operation& operation : group.operations)
      declared.insert(operation.name);
  }
  for (const Call& one : all()) called.insert(one.op);
  EXPECT_EQ(called, declared);
}

// The result is on the device of the operands, and so is everything that computes it. If compiling
// kernels takes long, they are only planned: the golden tests run each operation there.
TEST(OpCalls, NothingFallsBackToTheCpu) {
  for (const Call& one : all()) {
    SCOPED_TRACE(one.op);
    const Tensors inputs = usual_inputs(one, test_device());
    const DeviceWork work;
    const Tensors results = one.function(inputs);
    for (const Tensor& result : results) EXPECT_EQ(result.device(), test_device());
    const Explanation plan = explain(std::span<const Tensor>(results));
    for (const StepInfo& step : plan.steps)
      EXPECT_TRUE(step.kind == "kernel" || step.kind == "matmul" || step.kind == "convolution" ||
                  step.kind == "sort" || step.kind == "loop");
    if (thorough()) {
      for (const Tensor& result : results) result.eval();
    }
    work.expect_here();
  }
}

// Operands on two devices are refused if the policy says so, whichever operand it is, except values
// that are written into a tensor.
TEST(OpCalls, MixedDevicesAreRefused) {
  if (test_device().is_cpu()) GTEST_SKIP() << "needs a second device";
  const ExecutionContext strict({.mixed_devices = MixedDevices::error});
  for (const Call& one : all()) {
    for (std::size_t i = 1; i < one.inputs.size(); ++i) {
      SCOPED_TRACE(one.op + ", operand " + std::to_string(i) + " on the CPU");
      Tensors inputs = usual_inputs(one, test_device());
      inputs[i] = inputs[i].to(Device::cpu());
      try {
        const Tensors results = one.function(inputs);
        explain(std::span<const Tensor>(results));  // a selection is read on demand
        EXPECT_TRUE(one.moves) << "passed";
      } catch (const DeviceError& error) {
        EXPECT_FALSE(one.moves);
        EXPECT_NE(std::string(error.what()).find(": operands on "), std::string::npos)
            << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace volta::calls
