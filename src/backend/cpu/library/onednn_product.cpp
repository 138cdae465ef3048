// The table of products that plans use.
#ifdef VOLTA_HAS_ONEDNN
#include "backend/cpu/library/onednn_product.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "platform/fork.h"

namespace volta::cpu {
namespace {

constexpr std::size_t kFewest = 64;

struct Products {
  platform::ForkMutex mutex;
  std::map<std::vector<std::int64_t>, std::weak_ptr<const Product>> by_key;
  std::size_t limit = kFewest;  // the number of entries at which expired ones are removed
};
Products& known_products() {
  static auto* const known = new Products;  // plans may be destroyed at process exit
  return *known;
}

using Desc = dnnl::memory::desc;

std::shared_ptr<const Product> prepared(const Desc& a, const Desc& b, const Desc& bias,
                                        const Desc& c, bool has_bias) {
  require_room_for_onednn();
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::matmul::primitive_desc product(
      has_bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c), attr,
      onednn_engine());
  auto result = std::make_shared<Product>();
  result->primitive = dnnl::matmul(product);
  result->a = product.src_desc();
  result->b = product.weights_desc();
  result->c = product.dst_desc();
  result->bias = product.bias_desc();
  result->scratchpad = product.scratchpad_desc();
  result->is_blocked = std::string_view(product.impl_info_str()).starts_with("brg");
  result->code = OneDnnCode(onednn_key(0, {&result->a, &result->b, &result->c, &result->bias}));
  return result;
}

}  // namespace

std::shared_ptr<const Product> product_of(const Desc& a, const Desc& b, const Desc& bias,
                                          const Desc& c, bool has_bias) {
  std::vector<std::int64_t> key = onednn_key(has_bias, {&a, &b, &c, &bias});
  Products& known = known_products();
  {
    const std::lock_guard lock(known.mutex);
    if (const auto found = known.by_key.find(key); found != known.by_key.end()) {
      if (auto product = found->second.lock()) return product;
    }
  }
  auto product = prepared(a, b, bias, c, has_bias);
  const std::lock_guard lock(known.mutex);
  if (known.by_key.size() >= known.limit) {
    std::erase_if(known.by_key, [](const auto& entry) { return entry.second.expired(); });
    known.limit = std::max(kFewest, 2 * known.by_key.size());
  }
  known.by_key[std::move(key)] = product;
  return product;
}

}  // namespace volta::cpu
#endif
