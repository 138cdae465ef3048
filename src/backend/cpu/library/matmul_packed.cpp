// Tall products through oneDNN. Its fastest kernels need contiguous operands, so C is split into
// bands of whole rows, by shape alone, and each band is one single-threaded product. The right
// operand is converted to the library's layout once for all bands; a transposed left operand is
// transposed band by band.
#include "backend/cpu/library/matmul.h"

#ifdef VOLTA_HAS_ONEDNN
#include <algorithm>
#include <cstddef>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "backend/cpu/library/onednn_product.h"
#include "backend/cpu/library/scratch.h"
#include "backend/cpu/vector/simd_table.h"
#include "platform/parallel.h"

namespace volta::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;

// With fewer rows of C, packing takes too large a part of the time.
constexpr std::int64_t kFewestRows = 256;
constexpr std::int64_t kLeastSide = 64;                       // the least k and n
constexpr std::int64_t kMostPacked = std::int64_t{64} << 20;  // bytes of the packed right operand
// Transposing deeper f32 operands takes longer than the library loses with strided ones.
constexpr std::int64_t kDeepest = 256;
// A band has kBandRows rows; the number is doubled while a band has less than kBandWork
// multiply-adds and enough bands remain.
constexpr std::int64_t kBandRows = 64;
constexpr std::int64_t kBandWork = std::int64_t{1} << 21;
constexpr std::int64_t kFewestBands = 8;
// The number of columns packed together, a multiple of the library's blocks.
constexpr std::int64_t kPanel = 64;

std::int64_t band_rows(const plan::MatmulStep& s) {
  std::int64_t rows = kBandRows;
  while (rows * s.n * s.k < kBandWork && s.m >= 2 * kFewestBands * rows) rows *= 2;
  return rows;
}

class PackedMatmul final : public Matmul {
 public:
  explicit PackedMatmul(const plan::MatmulStep& step) : step_(step), rows_(band_rows(step)) {
    [[maybe_unused]] const OneThread alone;
    for (std::int64_t row = 0; row < step.m; row += rows_) add_band(std::min(rows_, step.m - row));
    if (!found()) return;
    turns_b_ = turns_b();
    if (turns_b_) return;
    require_room_for_onednn();
    for (std::int64_t column = 0; column < step.n; column += kPanel)
      add_panel(column, std::min(kPanel, step.n - column));
  }

  static bool suits(const plan::MatmulStep& s) {
    return s.batch == 1 && s.m >= kFewestRows && s.n >= kLeastSide && s.k >= kLeastSide &&
           s.ldc == s.n &&
           (s.transpose_a ? s.k <= kDeepest || s.dtype == DType::bf16 : s.lda == s.k) &&
           s.n * s.k <= kMostPacked / static_cast<std::int64_t>(size_of(s.dtype));
  }

  // Whether the library has kernels for operands in its own layout.
  bool found() const { return found_; }

  void run(const void* a, const void* b, void* c, const void* bias) override {
    // The memory objects hold the addresses of a run, so only one run is possible at a time.
    const std::lock_guard<std::mutex> lock(mutex_);
    [[maybe_unused]] const OneThread alone;
    const auto* right = static_cast<const std::byte*>(b) + step_.offset_b * operand();
    std::byte* packed = thread_workspace(packed_->get_size());
    const std::int64_t panels = (step_.n + kPanel - 1) / kPanel;
    platform::parallel_for(panels, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) pack(n, right, packed);
    });
    const auto* left = static_cast<const std::byte*>(a) + step_.offset_a * operand();
    platform::parallel_for(static_cast<std::int64_t>(bands_.size()), 1,
                           [&](std::int64_t begin, std::int64_t end) {
                             for (std::int64_t n = begin; n < end; ++n)
                               run_band(n, left, packed, static_cast<std::byte*>(c), bias);
                           });
  }

  std::uint64_t host_bytes() const override {
    return sizeof(*this) + bands_.size() * (sizeof(Band) + kPrimitiveUseBytes) +
           panels_.size() * (sizeof(Panel) + kPrimitiveUseBytes);
  }

 private:
  struct Band {
    std::int64_t rows;
    ProductCall call;
  };
  struct Panel {
    dnnl::reorder primitive;
    Bound from, to;
    dnnl::stream stream{onednn_engine()};
  };

  std::int64_t operand() const { return static_cast<std::int64_t>(size_of(step_.dtype)); }

  void add_band(std::int64_t rows) {
    const plan::MatmulStep& s = step_;
    const auto type = onednn_type(s.dtype), result = onednn_type(s.result_dtype());
    const Desc a({rows, s.k}, type, Tag::ab), c({rows, s.n}, result, Tag::ab),
        bias({1, s.n}, result, Tag::ab), b = packed_ ? *packed_ : Desc({s.k, s.n}, type, Tag::any);
    auto product = product_of(a, b, bias, c, s.has_bias);
    if (!packed_) packed_ = product->b;
    found_ = found_ && product->is_blocked;
    bands_.push_back({rows, ProductCall(std::move(product), s.has_bias)});
  }

  // Adds a panel: some columns of the right operand and their place in the packed one.
  void add_panel(std::int64_t column, std::int64_t columns) {
    const plan::MatmulStep& s = step_;
    const Desc whole({s.k, s.n}, onednn_type(s.dtype),
                     s.transpose_b ? Dims{1, s.ldb} : Dims{s.ldb, 1});
    const Desc from = whole.submemory_desc({s.k, columns}, {0, column}),
               to = packed_->submemory_desc({s.k, columns}, {0, column});
    Panel panel;
    panel.primitive =
        dnnl::reorder(dnnl::reorder::primitive_desc(onednn_engine(), from, onednn_engine(), to));
    panel.from = Bound(from);
    panel.to = Bound(to);
    panels_.push_back(std::move(panel));
  }

  // Whether a panel is a block of a transposed operand's rows, transposed in units of 4 bytes. Our
  // kernel does this faster than the library's reorder, which waits for memory.
  bool turns_b() const {
    const plan::MatmulStep& s = step_;
    const bool halves = s.dtype == DType::bf16;
    const Desc panels({s.k, s.n}, onednn_type(s.dtype), halves ? Tag::BA16a64b2a : Tag::BA16a64b);
    return s.transpose_b && s.n % kPanel == 0 && s.k % 32 == 0 && (!halves || s.ldb % 2 == 0) &&
           *packed_ == panels;
  }

  void pack(std::int64_t n, const std::byte* right, std::byte* packed) {
    const plan::MatmulStep& s = step_;
    if (!turns_b_) {
      Panel& panel = panels_[static_cast<std::size_t>(n)];
      panel.from.set(right);
      panel.to.set(packed);
      run_onednn(panel.primitive, panel.stream,
                 {{DNNL_ARG_FROM, panel.from.memory()}, {DNNL_ARG_TO, panel.to.memory()}});
      return;
    }
    const std::int64_t words = 4 / operand();
    simd().turn[size_index(DType::f32)](packed + n * kPanel * s.k * operand(), kPanel,
                                        right + n * kPanel * s.ldb * operand(), s.ldb / words,
                                        kPanel, s.k / words, true);
  }

  void run_band(std::int64_t n, const std::byte* left, const std::byte* packed, std::byte* c,
                const void* bias) {
    const plan::MatmulStep& s = step_;
    auto& [rows, call] = bands_[static_cast<std::size_t>(n)];
    const std::int64_t row = n * rows_;
    const std::size_t turned_bytes =
        s.transpose_a ? static_cast<std::size_t>(rows * s.k * operand()) : 0;
    std::byte* scratch = thread_scratch(call.scratch_bytes + turned_bytes);
    if (s.transpose_a) {
      std::byte* turned = scratch + call.scratch_bytes;
      simd().turn[size_index(s.dtype)](turned, s.k, left + row * operand(), s.lda, s.k, rows, true);
      call.a.set(turned);
    } else {
      call.a.set(left + row * s.k * operand());
    }
    call.b.set(packed);
    call.c.set(c + row * s.n * static_cast<std::int64_t>(size_of(s.result_dtype())));
    if (s.has_bias) call.bias.set(bias);
    call.scratchpad.set(scratch);
    call.execute();
  }

  plan::MatmulStep step_;
  std::mutex mutex_;
  std::int64_t rows_;  // the number of rows in a band
  bool found_ = true;
  std::optional<Desc> packed_;  // the right operand in the library's layout
  bool turns_b_ = false;
  std::vector<Band> bands_;
  std::vector<Panel> panels_;
};

}  // namespace

std::unique_ptr<Matmul> make_packed_matmul(const plan::MatmulStep& step) {
  if (!PackedMatmul::suits(step)) return nullptr;
  auto product = std::make_unique<PackedMatmul>(step);
  if (!product->found()) return nullptr;
  return product;
}

}  // namespace volta::cpu

#endif
