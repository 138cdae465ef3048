// Direct calls of oneDNN with its own threads and everything prepared in advance: the best possible
// time of products and convolutions on the CPU. The header is empty in builds without oneDNN.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#ifdef VOLTA_BENCH_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif

#include "rows.h"

namespace bench {

// [m, k] times [k, n]; a transposed operand is stored with its axes exchanged.
struct DirectProduct {
  std::int64_t m = 0, k = 0, n = 0;
  bool transpose_a = false, transpose_b = false;
  bool bf16 = false;  // otherwise f32

  double operations() const {
    return 2 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  }
};

// A square convolution of square images, padded by half of the kernel.
struct ConvShape {
  std::int64_t batch = 0, c_in = 0, c_out = 0, size = 0, kernel = 0, stride = 1;
  bool to_input = true;  // computes the gradient of the input, as in all layers but the first
  bool bf16 = false;     // otherwise f32

  std::int64_t padding() const { return kernel / 2; }
  std::int64_t out_size() const { return (size + 2 * padding() - kernel) / stride + 1; }
  // Operations of the forward pass and the gradients.
  double operations() const {
    const double products =
        static_cast<double>(batch * c_out * out_size() * out_size() * c_in * kernel * kernel);
    return (to_input ? 3 : 2) * 2 * products;
  }
};

#ifdef VOLTA_BENCH_ONEDNN

// Primitives with their memory, which run one after the other.
class DirectCalls {
 public:
  using Desc = dnnl::memory::desc;

  const dnnl::engine& engine() const { return engine_; }

  dnnl::memory memory(const Desc& desc) {
    dnnl::memory memory(desc, engine_);
    const bool halves = desc.data_type() == dnnl::memory::data_type::bf16;
    const std::size_t count = desc.get_size() / (halves ? 2 : 4);
    auto* bytes = static_cast<std::byte*>(memory.get_data_handle());
    for (std::size_t i = 0; i < count; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(i % 61) / 61 - 0.5f);
      const auto upper = static_cast<std::uint16_t>(bits >> 16);
      if (halves) {
        std::memcpy(bytes + 2 * i, &upper, 2);
      } else {
        std::memcpy(bytes + 4 * i, &bits, 4);
      }
    }
    return memory;
  }
  // Returns the existing memory if it has this layout, else new memory.
  dnnl::memory memory(const Desc& desc, const dnnl::memory& there) {
    return there.get_desc() == desc ? there : memory(desc);
  }
  void add(const dnnl::primitive& primitive, std::unordered_map<int, dnnl::memory> arguments) {
    calls_.emplace_back(primitive, std::move(arguments));
  }

  void run() {
    for (auto& [primitive, arguments] : calls_) primitive.execute(queue_, arguments);
    queue_.wait();
  }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream queue_{engine_};
  std::vector<std::pair<dnnl::primitive, std::unordered_map<int, dnnl::memory>>> calls_;
};

inline Step direct_call(const DirectProduct& p) {
  using Tag = dnnl::memory::format_tag;
  const auto type = p.bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  const auto calls = std::make_shared<DirectCalls>();
  const dnnl::memory::desc a({p.m, p.k}, type, p.transpose_a ? Tag::ba : Tag::ab),
      b({p.k, p.n}, type, p.transpose_b ? Tag::ba : Tag::ab), c({p.m, p.n}, type, Tag::ab);
  calls->add(dnnl::matmul({dnnl::matmul::desc(a, b, c), calls->engine()}),
             {{DNNL_ARG_SRC, calls->memory(a)},
              {DNNL_ARG_WEIGHTS, calls->memory(b)},
              {DNNL_ARG_DST, calls->memory(c)}});
  return [calls] { calls->run(); };
}

// Forward pass and gradients of images in channels-last layout, as in Volta's networks, with
// weights in the library's preferred layout.
inline Step direct_call(const ConvShape& s) {
  using Desc = dnnl::memory::desc;
  const auto type = s.bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  constexpr auto images = dnnl::memory::format_tag::nhwc;
  const auto calls = std::make_shared<DirectCalls>();
  const Desc input({s.batch, s.c_in, s.size, s.size}, type, images),
      result({s.batch, s.c_out, s.out_size(), s.out_size()}, type, images),
      weights({s.c_out, s.c_in, s.kernel, s.kernel}, type, dnnl::memory::format_tag::any);
  const dnnl::memory::dims strides{s.stride, s.stride}, padding{s.padding(), s.padding()};

  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, kDirect, input, weights, result, strides, padding,
       padding},
      calls->engine());
  const dnnl::memory x = calls->memory(forward.src_desc()),
                     w = calls->memory(forward.weights_desc()),
                     y = calls->memory(forward.dst_desc()), g = calls->memory(forward.dst_desc());
  calls->add(dnnl::convolution_forward(forward),
             {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}});
  const dnnl::convolution_backward_weights::primitive_desc to_weights(
      {kDirect, input, weights, result, strides, padding, padding}, calls->engine(), forward);
  calls->add(dnnl::convolution_backward_weights(to_weights),
             {{DNNL_ARG_SRC, calls->memory(to_weights.src_desc(), x)},
              {DNNL_ARG_DIFF_WEIGHTS, calls->memory(to_weights.diff_weights_desc())},
              {DNNL_ARG_DIFF_DST, calls->memory(to_weights.diff_dst_desc(), g)}});
  if (s.to_input) {
    const dnnl::convolution_backward_data::primitive_desc to_input(
        {kDirect, input, weights, result, strides, padding, padding}, calls->engine(), forward);
    calls->add(dnnl::convolution_backward_data(to_input),
               {{DNNL_ARG_DIFF_SRC, calls->memory(to_input.diff_src_desc())},
                {DNNL_ARG_WEIGHTS, calls->memory(to_input.weights_desc(), w)},
                {DNNL_ARG_DIFF_DST, calls->memory(to_input.diff_dst_desc(), g)}});
  }
  return [calls] { calls->run(); };
}

#else

inline Step direct_call(const DirectProduct&) { return {}; }
inline Step direct_call(const ConvShape&) { return {}; }

#endif

}  // namespace bench
