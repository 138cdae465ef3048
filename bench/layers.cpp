// Network layers, forward and backward, as users write them: products with bias and activation,
// convolutions, attention, batch norm. bench/peers/torch_layers.py measures the same rows in the
// same way; compare.py adds up the rows of a group.
#include <volta/volta.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shared_rows.h"

using namespace volta;
using namespace bench;

namespace {

// Returns a value and the gradients of its sources for the output gradient g.
Inputs with_gradients(const Tensor& value, const Inputs& sources, const Tensor& g) {
  Inputs results = grad({value}, sources, {.grad_outputs = {g}});
  results.push_back(value);
  return results;
}

Tensor leaf(const Shape& shape, Device device, DType dtype) {
  return normal(shape, device, dtype).set_requires_grad();
}

// ---- Products.

// x [batch..., in] through a linear layer of GPT-2.
struct LinearShape {
  const char* name = "";
  std::int64_t in = 0, out = 0;
  bool bias = true, gelu = false;
};

constexpr std::int64_t kBatch = 16, kTokens = 1024, kHeads = 12, kHeadSize = 64;

Row linear_row(const LinearShape& s, bool gradients) {
  const auto make = [=](Device device) {
    Inputs inputs{leaf({kBatch, kTokens, s.in}, device, DType::bf16),
                  leaf({s.out, s.in}, device, DType::bf16)};
    if (s.bias) inputs.push_back(leaf({s.out}, device, DType::bf16));
    if (gradients) inputs.push_back(normal({kBatch, kTokens, s.out}, device, DType::bf16));
    return inputs;
  };
  const auto value = [=](const Inputs& in) {
    const Tensor sums = linear(in[0], in[1], s.bias ? in[2] : Tensor());
    return s.gelu ? gelu(sums, {.tanh = true}) : sums;
  };
  const DirectProduct product{.m = kBatch * kTokens, .k = s.in, .n = s.out};
  return {.name = std::string("gpt2 ") + s.name + " " + std::to_string(s.in) + "->" +
                  std::to_string(s.out) + (gradients ? ", gradients" : ""),
          .operations = (gradients ? 3 : 1) * product.operations(),
          .group = gradients ? "GPT-2's products with gradients" : "GPT-2's products",
          .prepare = staying_all(make, [=](const Inputs& in) {
            if (gradients) return with_gradients(value(in), {in.begin(), in.end() - 1}, in.back());
            const NoGrad no_history;
            return Inputs{value(in)};
          })};
}

// The scores of all heads: a product of many small matrices, with the second operand transposed.
Row scores_row(bool gradients) {
  const Shape shape{kBatch, kHeads, kTokens, kHeadSize};
  const auto make = [=](Device device) {
    Inputs inputs{leaf(shape, device, DType::bf16), leaf(shape, device, DType::bf16)};
    if (gradients) {
      inputs.push_back(normal({kBatch, kHeads, kTokens, kTokens}, device, DType::bf16));
    }
    return inputs;
  };
  const DirectProduct product{.m = kBatch * kHeads * kTokens, .k = kHeadSize, .n = kTokens};
  return {.name = std::string("gpt2 q k^T 192x1024x64") + (gradients ? ", gradients" : ""),
          .operations = (gradients ? 3 : 1) * product.operations(),
          .group = gradients ? "GPT-2's products with gradients" : "GPT-2's products",
          .prepare = staying_all(make, [=](const Inputs& in) {
            if (gradients) {
              return with_gradients(matmul(in[0], in[1].transpose(-2, -1)), {in[0], in[1]}, in[2]);
            }
            const NoGrad no_history;
            return Inputs{matmul(in[0], in[1].transpose(-2, -1))};
          })};
}

std::vector<Row> gpt2_rows() {
  std::vector<Row> rows;
  for (const bool gradients : {false, true}) {
    for (const LinearShape& shape : {LinearShape{.name = "qkv", .in = 768, .out = 2304},
                                     {.name = "proj", .in = 768, .out = 768},
                                     {.name = "fc + gelu", .in = 768, .out = 3072, .gelu = true},
                                     {.name = "fc2", .in = 3072, .out = 768},
                                     {.name = "logits", .in = 768, .out = 50304, .bias = false}}) {
      rows.push_back(linear_row(shape, gradients));
    }
    rows.push_back(scores_row(gradients));
  }
  return rows;
}

// ---- Convolutions.

// Images have the channels-last layout, as between the layers of a network, and so have weights on
// GPUs. Calls see them as [n, channels, height, width].
Row conv_row(Numbers numbers, ConvShape s, const std::string& group) {
  const DType dtype = storage_of(numbers);
  s.bf16 = numbers == Numbers::bf16;
  const auto make = [=](Device device) {
    const Shape weight = device.is_cpu() ? Shape{s.c_out, s.c_in, s.kernel, s.kernel}
                                         : Shape{s.c_out, s.kernel, s.kernel, s.c_in};
    Tensor x = normal({s.batch, s.size, s.size, s.c_in}, device, dtype);
    if (s.to_input) x.set_requires_grad();
    return Inputs{x, leaf(weight, device, dtype),
                  normal({s.batch, s.out_size(), s.out_size(), s.c_out}, device, dtype)};
  };
  const std::string kernel = std::to_string(s.kernel);
  Row row{.name = std::string("conv ") + name_of(numbers) + " " + std::to_string(s.c_in) + "->" +
                  std::to_string(s.c_out) + " " + kernel + "x" + kernel + "/" +
                  std::to_string(s.stride) + " at " + std::to_string(s.size) + ", batch " +
                  std::to_string(s.batch),
          .operations = s.operations(),
          .group = group,
          .prepare = staying_all(make, [=](const Inputs& in) {
            const ExecutionContext scope(execution_of(numbers));
            const Tensor &x = in[0], &w = in[1], &g = in[2];
            const Tensor y =
                conv2d(x.permute({0, 3, 1, 2}), x.device().is_cpu() ? w : w.permute({0, 3, 1, 2}),
                       {}, {.stride = s.stride, .padding = s.padding()})
                    .permute({0, 2, 3, 1});
            return with_gradients(y, s.to_input ? Inputs{x, w} : Inputs{w}, g);
          })};
  bound_by_onednn(row, numbers, s);
  return row;
}

// The eleven different convolutions of ResNet-18 on images of 32 x 32 without the first pooling:
// the first layer, the blocks of 64 channels, and in each later stage the convolutions of the first
// block, of the other blocks, and of the shortcut.
std::vector<Row> resnet_rows(Numbers numbers) {
  const auto row = [=](std::int64_t c_in, std::int64_t c_out, std::int64_t size,
                       std::int64_t kernel, std::int64_t stride) {
    return conv_row(numbers,
                    {.batch = 256,
                     .c_in = c_in,
                     .c_out = c_out,
                     .size = size,
                     .kernel = kernel,
                     .stride = stride,
                     .to_input = c_in > 3},
                    std::string("ResNet-18's convolutions, ") + name_of(numbers));
  };
  std::vector<Row> rows = {row(3, 64, 32, 3, 1), row(64, 64, 32, 3, 1)};
  for (std::int64_t channels = 128, size = 32; channels <= 512; channels *= 2, size /= 2) {
    rows.push_back(row(channels / 2, channels, size, 3, 2));
    rows.push_back(row(channels / 2, channels, size, 1, 2));
    rows.push_back(row(channels, channels, size / 2, 3, 1));
  }
  return rows;
}

// ---- Attention.

Row attention_row(bool deterministic) {
  const Shape shape{kBatch, kHeads, kTokens, kHeadSize};
  const auto make = [=](Device device) {
    Inputs inputs;
    for (int i = 0; i < 3; ++i) inputs.push_back(leaf(shape, device, DType::bf16));
    inputs.push_back(normal(shape, device, DType::bf16));
    return inputs;
  };
  // Two products forward and five backward. The causal mask halves their work.
  const DirectProduct product{.m = kBatch * kHeads * kTokens, .k = kHeadSize, .n = kTokens};
  return {.name = std::string("attention bf16 16x12x1024x64 causal") +
                  (deterministic ? ", deterministic" : ""),
          .operations = 7 * product.operations() / 2,
          .prepare = staying_all(make, [=](const Inputs& in) {
            const ExecutionContext order({.deterministic = deterministic});
            const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], {.causal = true});
            return with_gradients(y, {in[0], in[1], in[2]}, in[3]);
          })};
}

// ---- Batch norm.

// Training, followed by ReLU. The minimum traffic: x is read for the statistics and for the result,
// which is written; x and g are read for the sums and for the gradient, which is written.
Row batch_norm_row(Numbers numbers, std::int64_t batch, bool channels_last) {
  constexpr std::int64_t kChannels = 64, kSize = 32;
  const DType dtype = storage_of(numbers);
  const Shape images =
      channels_last ? Shape{batch, kSize, kSize, kChannels} : Shape{batch, kChannels, kSize, kSize};
  const double bytes =
      8 * static_cast<double>(images.numel()) * static_cast<double>(size_of(dtype));
  const auto make = [=](Device device) {
    const Shape channels{kChannels};
    return Inputs{leaf(images, device, dtype),
                  leaf(channels, device, DType::f32),
                  leaf(channels, device, DType::f32),
                  zeros(channels, {.device = device}).clone().eval(),
                  ones(channels, {.device = device}).clone().eval(),
                  normal(images, device, dtype)};
  };
  return {.name = std::string("batch norm + relu ") + name_of(numbers) + " " +
                  std::to_string(batch) + "x64x32x32" + (channels_last ? ", channels last" : ""),
          .bytes = bytes,
          .limit = Limit::copy,
          .prepare = rotating_all(bytes, make, [=](const Inputs& in) {
            const Tensor x = channels_last ? in[0].permute({0, 3, 1, 2}) : in[0];
            const Tensor y = relu(batch_norm(x, in[3], in[4], in[1], in[2], {.training = true}));
            return with_gradients(channels_last ? y.permute({0, 2, 3, 1}) : y,
                                  {in[0], in[1], in[2]}, in[5]);
          })};
}

// ---- Lists of rows.

void append(std::vector<Row>& rows, std::vector<Row> more) {
  for (Row& row : more) rows.push_back(std::move(row));
}

std::vector<Row> gpu_rows(Device device) {
  // Memory rates are compared with that of a copy.
  std::vector<Row> rows = {copy_row(100'000'000)};
  std::vector<Numbers> kinds = {Numbers::f32, Numbers::bf16};
  if (device.type() == DeviceType::cuda) kinds.insert(kinds.begin() + 1, Numbers::tf32);
  for (const Numbers numbers : kinds) {
    for (const int n : {1024, 2048, 4096, 8192}) rows.push_back(matmul_row(numbers, n));
  }
  append(rows, gpt2_rows());
  append(rows, resnet_rows(device.type() == DeviceType::cuda ? Numbers::tf32 : Numbers::f32));
  append(rows, resnet_rows(Numbers::bf16));
  for (const bool deterministic : {false, true}) rows.push_back(attention_row(deterministic));
  for (const Numbers numbers : {Numbers::f32, Numbers::bf16}) {
    for (const bool last : {true, false}) rows.push_back(batch_norm_row(numbers, 256, last));
  }
  return rows;
}

// A layer's product and the products of its gradients for input and weights.
void append_layer(std::vector<Row>& rows, Numbers numbers, std::int64_t batch, std::int64_t in,
                  std::int64_t out, const std::string& group) {
  for (DirectProduct product :
       {DirectProduct{.m = batch, .k = in, .n = out, .transpose_b = true},
        DirectProduct{.m = batch, .k = out, .n = in},
        DirectProduct{.m = out, .k = batch, .n = in, .transpose_a = true}}) {
    product.bf16 = numbers == Numbers::bf16;
    rows.push_back(layer_product_row(product));
    rows.back().group = group + ", " + name_of(numbers);
  }
}

void append_mnist(std::vector<Row>& rows, Numbers numbers, std::int64_t batch) {
  const std::string group = std::string("MNIST CNN's convolutions, ") + name_of(numbers) +
                            ", batch " + std::to_string(batch);
  rows.push_back(conv_row(
      numbers, {.batch = batch, .c_in = 1, .c_out = 32, .size = 28, .kernel = 3, .to_input = false},
      group));
  rows.push_back(
      conv_row(numbers, {.batch = batch, .c_in = 32, .c_out = 64, .size = 14, .kernel = 3}, group));
}

std::vector<Row> cpu_rows() {
  std::vector<Row> rows;
  append_mnist(rows, Numbers::f32, 64);
  append_mnist(rows, Numbers::f32, 128);
  append_mnist(rows, Numbers::bf16, 64);
  for (const Numbers numbers : {Numbers::f32, Numbers::bf16}) {
    append_layer(rows, numbers, 64, 256, 1024, "LSTM's products");
    append_layer(rows, numbers, 64, 512, 2048, "LSTM's products");
    append_layer(rows, numbers, 1024, 768, 2304, "GPT-2's products");
    append_layer(rows, numbers, 1024, 768, 768, "GPT-2's products");
    append_layer(rows, numbers, 1024, 768, 3072, "GPT-2's products");
    append_layer(rows, numbers, 1024, 3072, 768, "GPT-2's products");
  }
  for (const std::int64_t out : {1152, 1536})
    append_layer(rows, Numbers::f32, 1024, 384, out, "GPT's products");
  append_layer(rows, Numbers::f32, 1024, 1536, 384, "GPT's products");
  for (const bool last : {true, false}) rows.push_back(batch_norm_row(Numbers::f32, 64, last));
  return rows;
}

}  // namespace

int main(int argc, char** argv) {
  return main_of({.name = "volta_layers",
                  .kind = "layers",
                  .name_width = 50,
                  .gpu_rows = gpu_rows,
                  .cpu_rows = cpu_rows},
                 argc, argv);
}
