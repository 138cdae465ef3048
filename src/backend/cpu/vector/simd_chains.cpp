// Chains: a sequence of operations over a block in which each takes the result of the previous one.
// Four vectors go through all steps before the next four, so intermediate results stay in
// registers.
#include <cstdint>
#include <type_traits>

#include "backend/cpu/vector/simd_table.h"

// Vectors are members of a struct here, which is impossible for targets whose vector size is
// unknown at compile time.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/vector/simd_chains.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "backend/cpu/vector/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace volta::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vector = hn::Vec<Tag<T>>;

// The vectors being processed: four, or only the first at the end of a block.
template <class T, int kVectors>
struct Group {
  Vector<T> v0, v1, v2, v3;

  static HWY_INLINE Group load(const T* from) {
    const Tag<T> d;
    const std::size_t lanes = hn::Lanes(d);
    Group group;
    group.v0 = hn::LoadU(d, from);
    if constexpr (kVectors > 1) {
      group.v1 = hn::LoadU(d, from + lanes);
      group.v2 = hn::LoadU(d, from + 2 * lanes);
      group.v3 = hn::LoadU(d, from + 3 * lanes);
    }
    return group;
  }
  static HWY_INLINE Group spread(T value) {
    Group group;
    group.v0 = hn::Set(Tag<T>(), value);
    if constexpr (kVectors > 1) group.v1 = group.v2 = group.v3 = group.v0;
    return group;
  }
  HWY_INLINE void store(T* to, bool stream) const {
    const Tag<T> d;
    const std::size_t lanes = hn::Lanes(d);
    if constexpr (kVectors > 1) {
      if (stream) {
        hn::Stream(v0, d, to);
        hn::Stream(v1, d, to + lanes);
        hn::Stream(v2, d, to + 2 * lanes);
        hn::Stream(v3, d, to + 3 * lanes);
        return;
      }
      hn::StoreU(v1, d, to + lanes);
      hn::StoreU(v2, d, to + 2 * lanes);
      hn::StoreU(v3, d, to + 3 * lanes);
    }
    hn::StoreU(v0, d, to);
  }

  template <class F>
  HWY_INLINE void apply(F) {
    const Tag<T> d;
    v0 = F::vector(d, v0);
    if constexpr (kVectors > 1) {
      v1 = F::vector(d, v1);
      v2 = F::vector(d, v2);
      v3 = F::vector(d, v3);
    }
  }
  template <class F>
  HWY_INLINE void apply(F, const Group& a) {
    const Tag<T> d;
    v0 = F::vector(d, v0, a.v0);
    if constexpr (kVectors > 1) {
      v1 = F::vector(d, v1, a.v1);
      v2 = F::vector(d, v2, a.v2);
      v3 = F::vector(d, v3, a.v3);
    }
  }
  template <class F>
  HWY_INLINE void apply(F, const Group& a, const Group& b) {
    const Tag<T> d;
    v0 = F::vector(d, v0, a.v0, b.v0);
    if constexpr (kVectors > 1) {
      v1 = F::vector(d, v1, a.v1, b.v1);
      v2 = F::vector(d, v2, a.v2, b.v2);
      v3 = F::vector(d, v3, a.v3, b.v3);
    }
  }
  template <class F>
  HWY_INLINE void apply(F, const Group& a, const Group& b, const Group& c) {
    v0 = F::vector(v0, a.v0, b.v0, c.v0);
    if constexpr (kVectors > 1) {
      v1 = F::vector(v1, a.v1, b.v1, c.v1);
      v2 = F::vector(v2, a.v2, b.v2, c.v2);
      v3 = F::vector(v3, a.v3, b.v3, c.v3);
    }
  }
};

#define VOLTA_CHAIN_UNARY(Name, expression) \
  struct Name {                             \
    template <class D, class V>             \
    static HWY_INLINE V vector(D d, V v) {  \
      (void)d;                              \
      return expression;                    \
    }                                       \
  };
#define VOLTA_CHAIN_BINARY(Name, expression)  \
  struct Name {                               \
    template <class D, class V>               \
    static HWY_INLINE V vector(D, V v, V a) { \
      return expression;                      \
    }                                         \
  };
#define VOLTA_CHAIN_TERNARY(Name, expression)      \
  struct Name {                                    \
    template <class D, class V>                    \
    static HWY_INLINE V vector(D, V v, V a, V b) { \
      return expression;                           \
    }                                              \
  };

#define VOLTA_CHAIN_CHOICE(Name, condition)          \
  struct Name {                                      \
    template <class V>                               \
    static HWY_INLINE V vector(V v, V a, V b, V c) { \
      return hn::IfThenElse(condition, a, b);        \
    }                                                \
  };

VOLTA_CHAIN_UNARY(Neg, hn::Neg(v))
VOLTA_CHAIN_UNARY(Abs, hn::Abs(v))
VOLTA_CHAIN_UNARY(Square, hn::Mul(v, v))
VOLTA_CHAIN_UNARY(Sqrt, hn::Sqrt(v))
VOLTA_CHAIN_UNARY(Rsqrt, hn::Div(hn::Set(d, hn::TFromD<D>{1}), hn::Sqrt(v)))
VOLTA_CHAIN_UNARY(Exp, exponential(d, v))
VOLTA_CHAIN_UNARY(Log, logarithm(d, v))
VOLTA_CHAIN_UNARY(Tanh, hyperbolic_tangent(d, v))
VOLTA_CHAIN_BINARY(Add, hn::Add(v, a))
VOLTA_CHAIN_BINARY(Sub, hn::Sub(v, a))
VOLTA_CHAIN_BINARY(SubFrom, hn::Sub(a, v))
VOLTA_CHAIN_BINARY(Mul, hn::Mul(v, a))
VOLTA_CHAIN_BINARY(Div, hn::Div(v, a))
VOLTA_CHAIN_BINARY(DivInto, hn::Div(a, v))
// (a != a || a > b) ? a : b, so that a NaN on either side is the result.
VOLTA_CHAIN_BINARY(Maximum, hn::IfThenElse(hn::Or(is_nan(v), hn::Gt(v, a)), v, a))
VOLTA_CHAIN_BINARY(MaximumOf, hn::IfThenElse(hn::Or(is_nan(a), hn::Gt(a, v)), a, v))
VOLTA_CHAIN_BINARY(Minimum, hn::IfThenElse(hn::Or(is_nan(v), hn::Lt(v, a)), v, a))
VOLTA_CHAIN_BINARY(MinimumOf, hn::IfThenElse(hn::Or(is_nan(a), hn::Lt(a, v)), a, v))
VOLTA_CHAIN_TERNARY(MulAdd, hn::MulAdd(v, a, b))
VOLTA_CHAIN_TERNARY(MulSub, hn::MulSub(v, a, b))
VOLTA_CHAIN_TERNARY(MulSubFrom, hn::NegMulAdd(v, a, b))
VOLTA_CHAIN_TERNARY(AddProduct, hn::MulAdd(a, b, v))
VOLTA_CHAIN_TERNARY(SubProduct, hn::NegMulAdd(a, b, v))
VOLTA_CHAIN_TERNARY(SubFromProduct, hn::MulSub(a, b, v))
VOLTA_CHAIN_CHOICE(ChooseLt, hn::Lt(v, c))
VOLTA_CHAIN_CHOICE(ChooseLe, hn::Le(v, c))
VOLTA_CHAIN_CHOICE(ChooseGt, hn::Lt(c, v))
VOLTA_CHAIN_CHOICE(ChooseGe, hn::Le(c, v))

#undef VOLTA_CHAIN_UNARY
#undef VOLTA_CHAIN_BINARY
#undef VOLTA_CHAIN_TERNARY
#undef VOLTA_CHAIN_CHOICE

// Runs the chain on the group of vectors at element i.
template <class T, int kVectors>
HWY_INLINE Group<T, kVectors> run_group(const ChainStep* step, const ChainStep* end,
                                        void* const* values, std::size_t i) {
  using G = Group<T, kVectors>;
  const auto operand = [&](int value, bool uniform) HWY_ATTR {
    const T* from = static_cast<const T*>(values[value]);
    return uniform ? G::spread(*from) : G::load(from + i);
  };
  G v = operand(step->a, step->a_uniform);
  for (++step; step != end; ++step) {
    const auto a = [&]() HWY_ATTR { return operand(step->a, step->a_uniform); };
    const auto b = [&]() HWY_ATTR { return operand(step->b, step->b_uniform); };
    const auto c = [&]() HWY_ATTR { return operand(step->c, step->c_uniform); };
    switch (step->op) {
      case ChainOp::Load:
        break;
      case ChainOp::Neg:
        v.apply(Neg());
        break;
      case ChainOp::Abs:
        v.apply(Abs());
        break;
      case ChainOp::Square:
        v.apply(Square());
        break;
      case ChainOp::Sqrt:
        v.apply(Sqrt());
        break;
      case ChainOp::Rsqrt:
        v.apply(Rsqrt());
        break;
      case ChainOp::Exp:
        v.apply(Exp());
        break;
      case ChainOp::Log:
        v.apply(Log());
        break;
      case ChainOp::Tanh:
        v.apply(Tanh());
        break;
      case ChainOp::Add:
        v.apply(Add(), a());
        break;
      case ChainOp::Sub:
        v.apply(Sub(), a());
        break;
      case ChainOp::SubFrom:
        v.apply(SubFrom(), a());
        break;
      case ChainOp::Mul:
        v.apply(Mul(), a());
        break;
      case ChainOp::Div:
        v.apply(Div(), a());
        break;
      case ChainOp::DivInto:
        v.apply(DivInto(), a());
        break;
      case ChainOp::Maximum:
        v.apply(Maximum(), a());
        break;
      case ChainOp::MaximumOf:
        v.apply(MaximumOf(), a());
        break;
      case ChainOp::Minimum:
        v.apply(Minimum(), a());
        break;
      case ChainOp::MinimumOf:
        v.apply(MinimumOf(), a());
        break;
      case ChainOp::MulAdd:
        v.apply(MulAdd(), a(), b());
        break;
      case ChainOp::MulSub:
        v.apply(MulSub(), a(), b());
        break;
      case ChainOp::MulSubFrom:
        v.apply(MulSubFrom(), a(), b());
        break;
      case ChainOp::AddProduct:
        v.apply(AddProduct(), a(), b());
        break;
      case ChainOp::SubProduct:
        v.apply(SubProduct(), a(), b());
        break;
      case ChainOp::SubFromProduct:
        v.apply(SubFromProduct(), a(), b());
        break;
      case ChainOp::ChooseLt:
        v.apply(ChooseLt(), a(), b(), c());
        break;
      case ChainOp::ChooseLe:
        v.apply(ChooseLe(), a(), b(), c());
        break;
      case ChainOp::ChooseGt:
        v.apply(ChooseGt(), a(), b(), c());
        break;
      case ChainOp::ChooseGe:
        v.apply(ChooseGe(), a(), b(), c());
        break;
    }
  }
  return v;
}

// Combines acc with a group pairwise, in the same order as `fold`.
template <class F, class D, class V, class G>
HWY_INLINE V fold_group(D d, V acc, const G& v) {
  return F::vector(d, acc, F::vector(d, F::vector(d, v.v0, v.v1), F::vector(d, v.v2, v.v3)));
}

template <class T, class F>
void fold_chain(const ChainRun& run) {
  const Tag<T> d;
  T* lanes = static_cast<T*>(run.lanes);
  auto acc = hn::LoadU(d, lanes);
  for (std::size_t i = run.begin; i < run.end; i += 4 * hn::Lanes(d)) {
    const auto v = run_group<T, 4>(run.steps, run.steps + run.count, run.values, i);
    if (run.out != nullptr) v.store(static_cast<T*>(run.out) + i, run.stream);
    acc = fold_group<F>(d, acc, v);
  }
  hn::StoreU(acc, d, lanes);
}

template <class T>
void chain(const ChainRun& run) {
  if (run.lanes != nullptr) {
    switch (run.fold) {
      case kernel::ReduceOp::Sum:
        return fold_chain<T, Add>(run);
      case kernel::ReduceOp::Prod:
        return fold_chain<T, Mul>(run);
      case kernel::ReduceOp::Max:
        return fold_chain<T, Maximum>(run);
      default:
        return fold_chain<T, Minimum>(run);
    }
  }
  const std::size_t lanes = hn::Lanes(Tag<T>());
  const ChainStep* end = run.steps + run.count;
  T* to = static_cast<T*>(run.out);
  if (run.end - run.begin <= lanes) {
    run_group<T, 1>(run.steps, end, run.values, run.begin).store(to + run.begin, false);
    return;
  }
  for (std::size_t i = run.begin; i < run.end; i += 4 * lanes)
    run_group<T, 4>(run.steps, end, run.values, i).store(to + i, run.stream);
}

}  // namespace
void fill_chains_for_target(SimdTable& table) {
  table.chain[type_index(DType::f32)] = chain<float>;
  table.chain[type_index(DType::f64)] = chain<double>;
  table.chains_fold = hn::Lanes(Tag<float>()) * sizeof(float) == kFoldBytes;
}
}  // namespace volta::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace volta::cpu {
HWY_EXPORT(fill_chains_for_target);
void fill_chains(SimdTable& table) { HWY_DYNAMIC_DISPATCH(fill_chains_for_target)(table); }
}  // namespace volta::cpu
#endif
