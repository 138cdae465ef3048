// Inserting values: equal ones are merged.
#include "plan/lower/builder.h"

#include <cstdint>
#include <utility>

#include "backend/registry.h"
#include "plan/lower/visits.h"

namespace volta::plan {

using kernel::ScalarOp;

namespace {

void put(std::string& key, const void* data, std::size_t bytes) {
  key.append(static_cast<const char*>(data), bytes);
}

void put(std::string& key, Extent extent) {
  const std::int64_t words[] = {extent.hint(), extent.expression()};
  put(key, words, sizeof words);
}

std::string merge_key(const Value& v) {
  std::string key;
  const std::int32_t head[] = {static_cast<int>(v.kind),
                               static_cast<int>(v.dtype),
                               static_cast<int>(v.op),
                               static_cast<int>(v.reduce),
                               v.number,
                               v.shape.rank()};
  const auto call = reinterpret_cast<std::uintptr_t>(v.call);
  const std::size_t numbers = v.shape.sizes().size() + v.attrs.size();
  // Room for what insert() appends, too.
  key.reserve(sizeof head + v.in.size() * sizeof(ValueId) + 2 * numbers * sizeof(std::int64_t) +
              sizeof v.constant + sizeof call + sizeof v.epoch + sizeof v.phase);
  put(key, head, sizeof head);
  put(key, v.in.begin(), v.in.size() * sizeof(ValueId));
  for (const Extent size : v.shape) put(key, size);
  for (const Extent attr : v.attrs) put(key, attr);
  put(key, &v.constant, sizeof v.constant);
  put(key, &call, sizeof call);
  return key;
}

}  // namespace

Expr operator+(Expr a, Expr b) { return a.builder->binary(ScalarOp::add, a, b); }
Expr operator-(Expr a, Expr b) { return a.builder->binary(ScalarOp::sub, a, b); }
Expr operator*(Expr a, Expr b) { return a.builder->binary(ScalarOp::mul, a, b); }
Expr operator/(Expr a, Expr b) { return a.builder->binary(ScalarOp::div, a, b); }

ValueBuilder::ValueBuilder(Values& values, const DeviceEntry& device)
    : values_(values), device_(&device), massively_parallel_(!device.device.is_cpu()) {}

Expr ValueBuilder::insert(Value value) {
  std::string key = merge_key(value);
  if (!value.in[0].is_none()) {
    value.epoch = origin_.epoch;
    value.phase = origin_.phase;
  }
  put(key, &value.epoch, sizeof value.epoch);
  put(key, &value.phase, sizeof value.phase);
  if (const auto found = merged_.find(key); found != merged_.end()) {
    if (value.stored) values_[found->second].stored = true;
    return {this, found->second};
  }
  value.label = origin_.label;
  ++visits().lowered;
  const ValueId id = values_.add(std::move(value));
  merged_.emplace(std::move(key), id);
  return {this, id};
}

}  // namespace volta::plan
