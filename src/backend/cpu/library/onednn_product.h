// Products as oneDNN's primitives, which plans share. Included only in builds that have the
// library.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>

#include "backend/cpu/library/onednn.h"

namespace volta::cpu {

// A product of two matrices, or of batches of them, prepared by the library.
struct Product {
  dnnl::matmul primitive;
  dnnl::memory::desc a, b, c, bias, scratchpad;  // the layouts that the primitive requires
  bool is_blocked = false;  // computed by the library's kernels for operands in its own layout
  OneDnnCode code;
};

// The product of operands with these layouts; `bias` is used only if has_bias is set. Preparing a
// product takes the library much longer than computing a small one, so plans share products.
std::shared_ptr<const Product> product_of(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                          const dnnl::memory::desc& bias,
                                          const dnnl::memory::desc& c, bool has_bias);

// A use of a product, with memory objects of its own; the caller provides the scratchpad.
struct ProductCall {
  ProductCall(std::shared_ptr<const Product> used, bool has_bias)
      : product(std::move(used)),
        a(product->a),
        b(product->b),
        c(product->c),
        scratchpad(product->scratchpad),
        scratch_bytes((product->scratchpad.get_size() + 63) / 64 * 64),
        arguments{{DNNL_ARG_SRC, a.memory()},
                  {DNNL_ARG_WEIGHTS, b.memory()},
                  {DNNL_ARG_DST, c.memory()},
                  {DNNL_ARG_SCRATCHPAD, scratchpad.memory()}} {
    if (!has_bias) return;
    bias = Bound(product->bias);
    arguments.emplace(DNNL_ARG_BIAS, bias.memory());
  }

  void execute() const { run_onednn(product->primitive, stream, arguments); }

  std::shared_ptr<const Product> product;
  Bound a, b, c, bias, scratchpad;
  std::size_t scratch_bytes;  // a multiple of a cache line
  std::unordered_map<int, dnnl::memory> arguments;
  dnnl::stream stream{onednn_engine()};
};

}  // namespace volta::cpu
