// Lets products write their results rounded or transposed.
#include <utility>

#include "plan/calls/matmul.h"
#include "plan/passes/passes.h"
#include "plan/passes/rewrite.h"

namespace volta::plan {

// If only the rounded value of a product of halves is used, the product itself rounds it.
void round_products(Graph& graph) {
  Values& values = graph.values;
  const PerValue<int> uses = count_uses(graph);
  for (Value& v : values) {
    if (v.kind != ValueKind::Cast) continue;
    const Value& product = values[v.in[0]];
    if (!is_matmul(product) || uses[v.in[0]] != 1) continue;
    if (values[product.in[0]].dtype != v.dtype) continue;
    v.kind = ValueKind::Call;
    v.call = product.call;
    v.in = product.in;
    v.attrs = product.attrs;
    v.label = product.label;
  }
}

// If only the transpose of a product is used, the transpose is computed instead, as
// (a b)^T = b^T a^T.
void turn_products(Graph& graph) {
  Values& values = graph.values;
  const PerValue<int> uses = count_uses(graph);
  for (Value& v : values) {
    if (v.kind != ValueKind::Permute) continue;
    const Value& product = values[v.in[0]];
    const std::vector<Extent> transposed =
        v.shape.rank() == 2 ? std::vector<Extent>{1, 0} : std::vector<Extent>{0, 2, 1};
    if (!is_matmul(product) || uses[v.in[0]] != 1 || v.attrs != transposed) continue;
    const MatmulAttributes before = MatmulAttributes::of(product);
    v.kind = ValueKind::Call;
    v.call = product.call;
    v.in = {product.in[1], product.in[0]};
    v.attrs = MatmulAttributes{.transpose_a = !before.transpose_b,
                               .transpose_b = !before.transpose_a,
                               .tf32 = before.tf32}
                  .pack();
    v.label = product.label;
  }
}

}  // namespace volta::plan
