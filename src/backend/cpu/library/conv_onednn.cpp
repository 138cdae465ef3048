// Convolutions through oneDNN. Its own threads would split sums by their number. Here the work is
// split into parts by shape alone (some images, or some rows of one), each part is one
// single-threaded call, and Volta spreads the parts over threads. Weights are converted to the
// library's layout once per run.
#include "backend/cpu/library/conv.h"

#ifdef VOLTA_HAS_ONEDNN
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/cpu/library/matmul.h"
#include "backend/cpu/library/onednn.h"
#include "backend/cpu/library/scratch.h"
#include "platform/parallel.h"
#include "volta/error.h"

namespace volta::cpu {
namespace {

using plan::ConvStep;
using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
constexpr auto kF32 = dnnl::memory::data_type::f32;
constexpr auto kDirect = dnnl::algorithm::convolution_direct;

// The number of parts to aim for, as long as each part has at least kLeastWork multiply-adds.
constexpr std::int64_t kParts = 16;
constexpr std::int64_t kLeastWork = std::int64_t{1} << 21;
// The most bytes for the partial weight gradients of all parts.
constexpr std::int64_t kMostSums = std::int64_t{64} << 20;

// A range of image rows: the first row and the number of rows in the input and in the result, and
// the padding above and below that relates the two.
struct Rows {
  std::int64_t in_first, in_count, out_first, out_count, above, below;
};
struct Part {
  std::int64_t image, images;
  Rows rows;
};

std::int64_t reach(const ConvStep& s, int axis) {
  return s.dilation[static_cast<std::size_t>(axis)] *
             (s.kernel[static_cast<std::size_t>(axis)] - 1) +
         1;
}

// The padding after the last row or column, which follows from the sizes. Negative if the last
// pixels are not read.
std::int64_t padding_after(std::int64_t in, std::int64_t out, std::int64_t stride,
                           std::int64_t before, std::int64_t reach) {
  return (out - 1) * stride + reach - in - before;
}

Rows all_rows(const ConvStep& s) {
  return {0,
          s.in[0],
          0,
          s.out[0],
          s.padding[0],
          padding_after(s.in[0], s.out[0], s.stride[0], s.padding[0], reach(s, 0))};
}

// The rows needed to compute rows [first, end) of the result, or of the input for its gradient;
// nothing if they do not form a convolution by themselves.
std::optional<Rows> some_rows(const ConvStep& s, std::int64_t first, std::int64_t end) {
  const std::int64_t stride = s.stride[0], padding = s.padding[0], extent = reach(s, 0);
  Rows r{};
  if (s.kind == ConvStep::Kind::InputGrad) {
    const std::int64_t above = first + padding - (extent - 1);
    r.out_first = std::max<std::int64_t>(0, (above + stride - 1) / stride);
    r.out_first = std::min(r.out_first, (first + padding) / stride);
    r.out_count = std::min(s.out[0], (end - 1 + padding) / stride + 1) - r.out_first;
    r.in_first = first;
    r.in_count = end - first;
    r.above = padding + first - r.out_first * stride;
  } else {
    r.out_first = first;
    r.out_count = end - first;
    r.in_first = std::max<std::int64_t>(0, first * stride - padding);
    r.in_count = std::min(s.in[0], (end - 1) * stride - padding + extent) - r.in_first;
    r.above = std::max<std::int64_t>(0, padding - first * stride);
  }
  if (r.in_count <= 0 || r.out_count <= 0) return std::nullopt;
  r.below = padding_after(r.in_count, r.out_count, stride, r.above, extent);
  if (r.below <= -stride || r.above >= extent) return std::nullopt;
  return r;
}

std::vector<Part> parts_of(const ConvStep& s) {
  const std::int64_t wanted = std::clamp<std::int64_t>(s.work() / kLeastWork, 1, kParts);
  std::vector<Part> parts;
  if (s.n >= wanted) {
    const std::int64_t images = (s.n + wanted - 1) / wanted;
    for (std::int64_t image = 0; image < s.n; image += images)
      parts.push_back({image, std::min(images, s.n - image), all_rows(s)});
    return parts;
  }
  const std::int64_t height = s.kind == ConvStep::Kind::InputGrad ? s.in[0] : s.out[0];
  const std::int64_t cuts = std::min((wanted + s.n - 1) / s.n, height);
  const std::int64_t step = (height + cuts - 1) / cuts;
  for (std::int64_t image = 0; image < s.n; ++image) {
    std::vector<Part> rows;
    for (std::int64_t first = 0; first < height; first += step) {
      const auto some = some_rows(s, first, std::min(height, first + step));
      if (!some) break;
      rows.push_back({image, 1, *some});
    }
    const bool whole = static_cast<std::int64_t>(rows.size()) * step < height;
    if (whole) rows = {{image, 1, all_rows(s)}};
    parts.insert(parts.end(), rows.begin(), rows.end());
  }
  return parts;
}

// One part of the convolution: a primitive with its memory objects.
struct Call {
  dnnl::primitive primitive;
  OneDnnCode code;
  Bound input, weights, result, bias, scratchpad;
  std::unordered_map<int, dnnl::memory> arguments;
  dnnl::stream stream{onednn_engine()};
  std::int64_t in_offset = 0, out_offset = 0;  // elements
  std::size_t scratch_bytes = 0;
};

class OneDnnConv final : public Conv {
 public:
  explicit OneDnnConv(const ConvStep& step) : step_(step) {
    [[maybe_unused]] const OneThread alone;
    std::vector<Part> parts = parts_of(step);
    if (step.kind == ConvStep::Kind::WeightGrad) limit_sums(parts);
    for (const Part& part : parts) add(part);
    user_weights_ =
        Desc(weight_dims(), onednn_type(step.dtype), step.groups > 1 ? Tag::goihw : Tag::oihw);
    const std::size_t blocks = step.kind == ConvStep::Kind::WeightGrad ? calls_.size() : 1;
    packed_bytes_ = (weights_->get_size() + 255) / 256 * 256;
    const bool as_it_is = *weights_ == user_weights_ && blocks == 1;
    if (!as_it_is) workspace_bytes_ = blocks * packed_bytes_;
    const dnnl::reorder::primitive_desc turn =
        step.kind == ConvStep::Kind::WeightGrad
            ? dnnl::reorder::primitive_desc(onednn_engine(), *weights_, onednn_engine(),
                                            user_weights_)
            : dnnl::reorder::primitive_desc(onednn_engine(), user_weights_, onednn_engine(),
                                            *weights_);
    turn_ = dnnl::reorder(turn);
  }

  void run(const void* a, const void* b, void* c, const void* bias) override {
    // The memory objects hold the addresses of a run, so only one run is possible at a time.
    const std::lock_guard<std::mutex> lock(mutex_);
    if (step_.has_bias) {
      for (Call& call : calls_) call.bias.set(bias);
    }
    packed_ = workspace_bytes_ == 0 ? nullptr
                                    : reinterpret_cast<float*>(thread_workspace(workspace_bytes_));
    switch (step_.kind) {
      case ConvStep::Kind::Forward:
        return run_parts(a, turned(b), c);
      case ConvStep::Kind::InputGrad:
        return run_parts(c, turned(b), a);
      case ConvStep::Kind::WeightGrad:
        run_parts(a, packed_ == nullptr ? c : packed_, b);
        if (packed_ != nullptr) collect(c);
    }
  }

  std::uint64_t host_bytes() const override {
    return sizeof(*this) + calls_.size() * (sizeof(Call) + kPrimitiveUseBytes);
  }

 private:
  Dims weight_dims() const {
    const ConvStep& s = step_;
    if (s.groups == 1) return {s.c_out, s.c_in, s.kernel[0], s.kernel[1]};
    return {s.groups, s.group_out(), s.group_in(), s.kernel[0], s.kernel[1]};
  }

  // Uses fewer parts if their partial sums would take too much memory.
  void limit_sums(std::vector<Part>& parts) const {
    const std::int64_t most =
        std::max<std::int64_t>(1, kMostSums / std::max<std::int64_t>(1, 4 * step_.weight_size()));
    if (static_cast<std::int64_t>(parts.size()) <= most) return;
    const std::int64_t images = (step_.n + most - 1) / most;
    parts.clear();
    for (std::int64_t image = 0; image < step_.n; image += images)
      parts.push_back({image, std::min(images, step_.n - image), all_rows(step_)});
  }

  void add(const Part& part) {
    const ConvStep& s = step_;
    const Rows& r = part.rows;
    const auto type = onednn_type(s.dtype);
    const Desc input({part.images, s.c_in, r.in_count, s.in[1]}, type, Tag::nhwc);
    const Desc result({part.images, s.c_out, r.out_count, s.out[1]}, type, Tag::nhwc);
    // All parts use the weight layout that the first part asks for. Weight gradients are
    // accumulated in f32 until the last part has been added.
    const Desc any(weight_dims(), type, Tag::any), sums(weight_dims(), kF32, Tag::any);
    const Desc weights = weights_ ? *weights_ : s.kind == ConvStep::Kind::WeightGrad ? sums : any;
    const Dims strides{s.stride[0], s.stride[1]}, dilates{s.dilation[0] - 1, s.dilation[1] - 1},
        before{r.above, s.padding[1]},
        after{r.below, padding_after(s.in[1], s.out[1], s.stride[1], s.padding[1], reach(s, 1))};
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const Desc of_forward = s.kind == ConvStep::Kind::Forward ? weights : any,
               bias({s.c_out}, type, Tag::a);
    constexpr auto kTraining = dnnl::prop_kind::forward_training;
    const dnnl::convolution_forward::primitive_desc forward(
        s.has_bias ? dnnl::convolution_forward::desc(kTraining, kDirect, input, of_forward, bias,
                                                     result, strides, dilates, before, after)
                   : dnnl::convolution_forward::desc(kTraining, kDirect, input, of_forward, result,
                                                     strides, dilates, before, after),
        attr, onednn_engine());
    Call call;
    Desc scratchpad;
    if (s.kind == ConvStep::Kind::Forward) {
      call.primitive = dnnl::convolution_forward(forward);
      keep(forward.weights_desc());
      scratchpad = forward.scratchpad_desc();
    } else if (s.kind == ConvStep::Kind::InputGrad) {
      const dnnl::convolution_backward_data::primitive_desc pd(
          dnnl::convolution_backward_data::desc(kDirect, input, weights, result, strides, dilates,
                                                before, after),
          attr, onednn_engine(), forward);
      call.primitive = dnnl::convolution_backward_data(pd);
      keep(pd.weights_desc());
      scratchpad = pd.scratchpad_desc();
    } else {
      const dnnl::convolution_backward_weights::primitive_desc pd(
          dnnl::convolution_backward_weights::desc(kDirect, input, weights, result, strides,
                                                   dilates, before, after),
          attr, onednn_engine(), forward);
      call.primitive = dnnl::convolution_backward_weights(pd);
      keep(pd.diff_weights_desc());
      scratchpad = pd.scratchpad_desc();
    }
    call.input = Bound(input);
    call.weights = Bound(*weights_);
    call.result = Bound(result);
    call.scratchpad = Bound(scratchpad);
    call.scratch_bytes = scratchpad.get_size();
    call.code = OneDnnCode(onednn_key(1 + static_cast<std::int64_t>(s.kind),
                                      {&input, &*weights_, &result, &scratchpad}));
    const bool to_input = s.kind == ConvStep::Kind::InputGrad,
               to_weight = s.kind == ConvStep::Kind::WeightGrad,
               forwards = s.kind == ConvStep::Kind::Forward;
    call.arguments = {{to_input ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, call.input.memory()},
                      {to_weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, call.weights.memory()},
                      {forwards ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, call.result.memory()},
                      {DNNL_ARG_SCRATCHPAD, call.scratchpad.memory()}};
    if (s.has_bias) {
      call.bias = Bound(bias);
      call.arguments.emplace(DNNL_ARG_BIAS, call.bias.memory());
    }
    call.in_offset = (part.image * s.in[0] + r.in_first) * s.in[1] * s.c_in;
    call.out_offset = (part.image * s.out[0] + r.out_first) * s.out[1] * s.c_out;
    calls_.push_back(std::move(call));
  }

  void keep(const Desc& weights) {
    if (!weights_) weights_ = weights;
  }

  // Converts the weights to the library's layout.
  void* turned(const void* weights) {
    if (packed_ == nullptr) return const_cast<void*>(weights);
    const dnnl::memory from(user_weights_, onednn_engine(), const_cast<void*>(weights)),
        to(*weights_, onednn_engine(), packed_);
    dnnl::stream stream(onednn_engine());
    run_onednn(turn_, stream, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    return packed_;
  }

  // Adds up the parts' sums in order and converts them to the caller's layout.
  void collect(void* weights) {
    const std::size_t elements = weights_->get_size() / sizeof(float),
                      stride = packed_bytes_ / sizeof(float);
    platform::parallel_for(static_cast<std::int64_t>(elements), kSumGrain,
                           [&](std::int64_t begin, std::int64_t end) {
                             for (std::size_t part = 1; part < calls_.size(); ++part) {
                               const float* more = packed_ + part * stride;
                               for (std::int64_t i = begin; i < end; ++i) packed_[i] += more[i];
                             }
                           });
    const dnnl::memory from(*weights_, onednn_engine(), packed_),
        to(user_weights_, onednn_engine(), weights);
    dnnl::stream stream(onednn_engine());
    run_onednn(turn_, stream, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }

  void run_parts(const void* input, void* weights, const void* result) {
    [[maybe_unused]] const OneThread alone;
    const bool sums = step_.kind == ConvStep::Kind::WeightGrad;
    const std::int64_t size = static_cast<std::int64_t>(size_of(step_.dtype));
    platform::parallel_for(
        static_cast<std::int64_t>(calls_.size()), 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t n = begin; n < end; ++n) {
            Call& call = calls_[static_cast<std::size_t>(n)];
            const auto at = [](const void* base, std::int64_t bytes) {
              return static_cast<const std::byte*>(base) + bytes;
            };
            call.input.set(at(input, call.in_offset * size));
            call.result.set(at(result, call.out_offset * size));
            call.weights.set(at(weights, sums ? n * static_cast<std::int64_t>(packed_bytes_) : 0));
            call.scratchpad.set(thread_scratch(call.scratch_bytes));
            run_onednn(call.primitive, call.stream, call.arguments);
          }
        });
  }

  static constexpr std::int64_t kSumGrain = 16 * 1024;

  ConvStep step_;
  std::mutex mutex_;
  std::vector<Call> calls_;
  std::optional<Desc> weights_;  // in the library's layout
  Desc user_weights_;
  dnnl::reorder turn_;
  std::size_t packed_bytes_ = 0;     // the size of one set of weights
  std::size_t workspace_bytes_ = 0;  // 0 if the library uses the caller's weights directly
  // The weights of this run in the library's layout, or the sums of its parts.
  float* packed_ = nullptr;
};

}  // namespace

bool takes_conv(const plan::ConvStep& step) {
  // oneDNN's ReLU turns NaN into 0, so activations are not fused.
  return onednn_multiplies(step.dtype) && step.activation == plan::Activation::None;
}

std::unique_ptr<Conv> make_conv(const plan::ConvStep& step) {
  require_room_for_onednn();
  try {
    return std::make_unique<OneDnnConv>(step);
  } catch (const dnnl::error& error) {
    throw_onednn(
        fmt::format(
            "{}: oneDNN cannot prepare {} images of [{}, {}, {}] with {} kernels of [{}, {}]",
            step.label, step.n, step.c_in, step.in[0], step.in[1], step.c_out, step.kernel[0],
            step.kernel[1]),
        error);
  }
}

}  // namespace volta::cpu

#else

namespace volta::cpu {

bool takes_conv(const plan::ConvStep&) { return false; }
std::unique_ptr<Conv> make_conv(const plan::ConvStep&) { return nullptr; }

}  // namespace volta::cpu

#endif
