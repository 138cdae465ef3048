// Foreign memory: from_blob, spans, DLPack import and export.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "support/test_device.h"
#include "volta/dlpack_abi.h"
#include "volta/volta.h"

namespace volta {
namespace {

std::vector<float> counted(std::size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

// ---- from_blob.

TEST(FromBlob, UsesTheMemoryWithoutACopy) {
  std::vector<float> memory = counted(6);
  const std::uint64_t before = memory_stats(Device::cpu()).in_use;
  const Tensor x = from_blob(memory.data(), {2, 3});
  EXPECT_EQ(memory_stats(Device::cpu()).in_use, before);
  EXPECT_EQ(x.span<float>().data(), memory.data());
  EXPECT_EQ(x.dtype(), DType::f32);
  EXPECT_EQ((x * 2).to_vector<float>(), (std::vector<float>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(x.t().to_vector<float>(), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST(FromBlob, IsReadAtEvaluation) {
  std::vector<float> memory{1, 2};
  const Tensor x = from_blob(memory.data(), {2});
  const Tensor y = x + 1, copy = from_blob(memory.data(), {2}, {.copy = true}) + 1;
  memory[0] = 10;
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{11, 3}));
  EXPECT_EQ(copy.to_vector<float>(), (std::vector<float>{2, 3}));
  memory[0] = 20;  // the evaluated value is unchanged
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{11, 3}));
}

TEST(FromBlob, ClonesAndViewsHaveTheirOwnMemoryOnceEvaluated) {
  std::vector<float> memory{1, 2, 3, 4};
  const Tensor x = from_blob(memory.data(), {4});
  const Tensor clone = x.clone().eval(), square = x.reshape({2, 2}).eval();
  EXPECT_NE(clone.span<float>().data(), memory.data());
  memory[0] = 9;
  EXPECT_EQ(clone.to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(square.to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{9, 2, 3, 4}));
}

TEST(FromBlob, IsNeverWrittenTo) {
  std::vector<float> memory(5000, 1);
  Tensor x = from_blob(memory.data(), {5000});
  const Tensor same = x;
  x += 1;
  x *= 3;
  x.eval();
  EXPECT_EQ(memory, std::vector<float>(5000, 1));
  EXPECT_EQ(same.to_vector<float>(), std::vector<float>(5000, 6));
  // As a parameter, it is updated in other memory, however often.
  Tensor parameter = from_blob(memory.data(), {5000}, {.requires_grad = true});
  optim::SGD sgd({parameter}, {.lr = 0.5});
  for (int i = 0; i < 3; ++i) {
    sgd.zero_grad();
    (parameter * 2).sum().backward();
    sgd.step();
  }
  EXPECT_EQ(memory, std::vector<float>(5000, 1));
  EXPECT_EQ(parameter.to_vector<float>(), std::vector<float>(5000, -2));
}

TEST(FromBlob, DeleterRunsOnceAfterTheLastUse) {
  int deleted = 0;
  float memory[3] = {1, 2, 3};
  void* seen = nullptr;
  const auto blob = [&](BlobOptions options = {}) {
    options.deleter = [&](void* data) {
      ++deleted;
      seen = data;
    };
    return from_blob(memory, {3}, std::move(options));
  };
  {
    const Tensor never_evaluated = blob();
  }
  EXPECT_EQ(deleted, 1);
  EXPECT_EQ(seen, memory);
  Tensor y;
  {
    const Tensor x = blob();
    y = x + 1;
  }
  EXPECT_EQ(deleted, 1) << "what is pending still reads it";
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(deleted, 2);
  const Tensor copy = blob({.copy = true});
  EXPECT_EQ(deleted, 3);
  Tensor held = blob(), other = held.detach();
  held = Tensor();
  EXPECT_EQ(deleted, 3);
  other = Tensor();
  EXPECT_EQ(deleted, 4);
  // Results that share the value do not share the memory.
  Tensor clone = blob().clone().eval();
  EXPECT_EQ(deleted, 5);
  // Recorded, dropped and never evaluated: released by the next submit.
  {
    const Tensor dropped = blob() * 2;
  }
  submit(Device::cpu());
  EXPECT_EQ(deleted, 6);
  EXPECT_EQ(copy.to_vector<float>(), (std::vector<float>{1, 2, 3}));
}

TEST(FromBlob, DeleterRunsOnceWhereThingsGoWrong) {
  int deleted = 0;
  alignas(8) float memory[4] = {1, 2, 3, 4};
  const auto deleter = [&](void*) { ++deleted; };
  EXPECT_THROW(from_blob(memory, {2, 2}, {.strides = {1}, .deleter = deleter}), ArgumentError);
  EXPECT_EQ(deleted, 1);
  EXPECT_THROW(from_blob(memory, {2, 2}, DType::i32, {.requires_grad = true, .deleter = deleter}),
               DTypeError);
  EXPECT_EQ(deleted, 2);
  // A plan that fails.
  {
    const Tensor x = from_blob(memory, {4}, {.deleter = deleter});
    empty_cache(Device::cpu());
    set_memory_limit(Device::cpu(), memory_stats(Device::cpu()).in_use + 1024);
    const Tensor y = x.expand({1 << 20, 4}) + 1;
    EXPECT_THROW(y.eval(), OutOfMemory);
    set_memory_limit(Device::cpu(), 0);
    EXPECT_EQ(deleted, 2);
    EXPECT_EQ((x + 1).to_vector<float>(), (std::vector<float>{2, 3, 4, 5}));
  }
  arange(3).eval();  // until this submit the failed work could be tried again
  EXPECT_EQ(deleted, 3);
  // Destroyed in another thread than the one that created it.
  Tensor x = from_blob(memory, {4}, {.deleter = deleter});
  std::thread([moved = std::move(x)]() mutable { moved = Tensor(); }).join();
  EXPECT_EQ(deleted, 4);
}

TEST(FromBlob, StridesOfExchangedAxesNeedNoCopy) {
  const std::vector<float> memory = counted(24);
  const std::uint64_t before = memory_stats(Device::cpu()).in_use;
  const Tensor x = from_blob(memory.data(), {4, 1, 2, 3}, {.strides = {1, 77, 12, 4}});
  EXPECT_EQ(memory_stats(Device::cpu()).in_use, before);
  const Tensor plain = from_blob(memory.data(), {2, 3, 4}).permute({2, 0, 1});
  EXPECT_EQ(x.to_vector<float>(), plain.to_vector<float>());
  EXPECT_EQ(x.shape(), Shape({4, 1, 2, 3}));
  // Row-major except for axes of one element, whose stride is irrelevant.
  const Tensor rows = from_blob(memory.data(), {2, 1, 12}, {.strides = {12, 7, 1}});
  EXPECT_FALSE(rows.is_pending());
  EXPECT_EQ(rows.span<float>().data(), memory.data());
}

TEST(FromBlob, OtherStridesAreCopiedAtTheCall) {
  std::vector<float> memory = counted(12);
  int deleted = 0;
  const auto strided = [&](const Shape& shape, std::vector<std::int64_t> strides, int first = 0) {
    return from_blob(memory.data() + first, shape,
                     {.strides = std::move(strides), .deleter = [&](void*) { ++deleted; }});
  };
  const Tensor columns = strided({3, 2}, {4, 1});
  EXPECT_EQ(deleted, 1);
  EXPECT_EQ(columns.to_vector<float>(), (std::vector<float>{0, 1, 4, 5, 8, 9}));
  EXPECT_EQ(strided({2, 3}, {0, 1}).to_vector<float>(), (std::vector<float>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(strided({3}, {-2}, 4).to_vector<float>(), (std::vector<float>{4, 2, 0}));
  EXPECT_EQ(strided({3}, {5}).to_vector<float>(), (std::vector<float>{0, 5, 10}));
  memory[0] = 99;
  EXPECT_EQ(columns.to_vector<float>()[0], 0);
}

TEST(FromBlob, MisalignedMemoryIsCopiedAtTheCall) {
  alignas(16) std::byte memory[64] = {};
  const float values[3] = {1.5f, -2, 3};
  std::memcpy(memory + 1, values, sizeof values);
  int deleted = 0;
  const Tensor x = from_blob(memory + 1, {3}, DType::f32, {.deleter = [&](void*) { ++deleted; }});
  EXPECT_EQ(deleted, 1);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1.5f, -2, 3}));
  // Alignment to the element size is enough.
  std::memcpy(memory + 4, values, sizeof values);
  const Tensor y = from_blob(memory + 4, {3}, DType::f32);
  EXPECT_EQ(static_cast<const void*>(y.span<float>().data()), memory + 4);
  EXPECT_EQ((y + y.sum()).to_vector<float>(), (std::vector<float>{4, 0.5f, 5.5f}));
}

TEST(FromBlob, OnAnotherDeviceIsACopy) {
  std::vector<float> memory = counted(6);
  int deleted = 0;
  const Tensor x =
      from_blob(memory.data(), {2, 3},
                {.device = test_device(), .copy = true, .deleter = [&](void*) { ++deleted; }});
  EXPECT_EQ(deleted, 1);
  memory.assign(6, 0);
  EXPECT_EQ(x.device(), test_device());
  EXPECT_EQ(x.to_vector<float>(), counted(6));
  if (test_device().is_cpu()) return;
  const std::uint64_t moved = counters().bytes_to_device;
  from_blob(memory.data(), {2, 3}, {.device = test_device()});
  EXPECT_EQ(counters().bytes_to_device - moved, 24u);
}

// Memory that ends at a page boundary, after which reads fault.
class GuardedFloats {
 public:
  explicit GuardedFloats(std::size_t count) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t used = (count * sizeof(float) + page - 1) / page * page;
    bytes_ = used + page;
    base_ = static_cast<std::byte*>(
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + used, page, PROT_NONE);
    data_ = reinterpret_cast<float*>(base_ + used) - count;
    std::iota(data_, data_ + count, 0.0f);
  }
  ~GuardedFloats() { munmap(base_, bytes_); }
  GuardedFloats(const GuardedFloats&) = delete;
  GuardedFloats& operator=(const GuardedFloats&) = delete;
  float* data() const { return data_; }

 private:
  std::byte* base_;
  std::size_t bytes_;
  float* data_;
};

TEST(FromBlob, IsNotReadPastItsEnd) {
  for (const std::int64_t rows : {1, 3, 17, 130}) {
    for (const std::int64_t columns : {1, 3, 7, 67, 129}) {
      const GuardedFloats memory(static_cast<std::size_t>(rows * columns));
      const Tensor x = from_blob(memory.data(), {rows, columns});
      const Tensor results[] = {
          x + 1,       x.t() * 2,        x.sum(0),
          x.sum(1),    x.to(DType::f64), x.softmax(1),
          x.cumsum(1), matmul(x.t(), x), matmul(x, x.t()),
          x.sum(),     x.max(0),         x.to(DType::f16),
          x.argmax(1), x.to(DType::i64), embedding(x, zeros({2}, {.dtype = DType::i64})),
          x.clone(),   x.narrow(1, 0, 1)};
      for (const Tensor& y : results) y.eval();
      const double n = static_cast<double>(rows * columns);
      EXPECT_NEAR(results[9].item(), n * (n - 1) / 2, 1e-6 * n * n);
      EXPECT_EQ(sort(x, 1).values.to_vector<float>(), x.to_vector<float>());
      EXPECT_EQ(x.to(test_device()).to_vector<float>(), x.to_vector<float>());
    }
  }
}

// ---- Spans.

TEST(Span, IsTheValuesWithoutACopy) {
  const Tensor x = arange(6).to(DType::f32).reshape({2, 3});
  const std::span<const float> values = x.span<float>();
  EXPECT_FALSE(x.is_pending());
  EXPECT_EQ(std::vector<float>(values.begin(), values.end()), counted(6));
  EXPECT_EQ(x.span<float>().data(), values.data());
  EXPECT_EQ(x.span<std::byte>().size(), 24u);
  EXPECT_EQ(ones({3}).span<float>()[2], 1);  // a constant
  EXPECT_EQ(full({2}, true).span<bool>()[1], true);
  EXPECT_EQ(full({2}, 7).span<std::int64_t>()[1], 7);
  EXPECT_TRUE(zeros({0, 4}).span<float>().empty());
  const Tensor half = full({2}, 1.5, {.dtype = DType::f16});
  std::uint16_t bits = 0;
  std::memcpy(&bits, half.span<std::byte>().data(), 2);
  EXPECT_EQ(bits, 0x3e00);
}

// ---- DLPack.

TEST(Dlpack, ExportsTheMemoryReadOnly) {
  const Tensor x = (arange(6, {.device = test_device()}).to(DType::f32) * 2).reshape({2, 3}).eval();
  DLManagedTensorVersioned* managed = to_dlpack(x);
  EXPECT_EQ(managed->version.major, 1u);
  EXPECT_EQ(managed->flags, dlpack::kReadOnly);
  const DLTensor& tensor = managed->dl_tensor;
  EXPECT_EQ(tensor.ndim, 2);
  EXPECT_EQ(std::vector<std::int64_t>(tensor.shape, tensor.shape + 2),
            (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(std::vector<std::int64_t>(tensor.strides, tensor.strides + 2),
            (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(tensor.dtype.code, dlpack::kFloat);
  EXPECT_EQ(tensor.dtype.bits, 32);
  EXPECT_EQ(tensor.dtype.lanes, 1);
  EXPECT_EQ(tensor.device.device_type, test_device().is_cpu() ? dlpack::kCpu
                                       : test_device().type() == DeviceType::cuda
                                           ? dlpack::kCuda
                                           : dlpack::kOpenCl);
  EXPECT_EQ(tensor.device.device_id, test_device().index());
  if (test_device().is_cpu()) {
    EXPECT_EQ(tensor.data, x.span<float>().data());
    EXPECT_EQ(static_cast<const float*>(tensor.data)[5], 10);
  }
  managed->deleter(managed);
}

TEST(Dlpack, AnExportedValueIsNotOverwritten) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "looks at the memory";
  Tensor x = (zeros({5000}) + 1).eval();
  DLManagedTensorVersioned* managed = to_dlpack(x);
  x += 1;
  x.eval();
  EXPECT_EQ(static_cast<const float*>(managed->dl_tensor.data)[4999], 1);
  const std::uint64_t before = memory_stats(Device::cpu()).in_use;
  managed->deleter(managed);
  EXPECT_LT(memory_stats(Device::cpu()).in_use, before);
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(5000, 2));
}

TEST(Dlpack, CopiesMayBeWrittenTo) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "looks at the memory";
  const Tensor x = arange(3).to(DType::f32).eval();
  DLManagedTensorVersioned* managed = to_dlpack(x, {.copy = true});
  EXPECT_EQ(managed->flags, dlpack::kIsCopied);
  static_cast<float*>(managed->dl_tensor.data)[0] = 7;
  managed->deleter(managed);
  DLManagedTensor* old = to_dlpack_unversioned(x);
  static_cast<float*>(old->dl_tensor.data)[0] = 7;
  old->deleter(old);
  EXPECT_EQ(x.to_vector<float>(), counted(3));
  DLManagedTensorVersioned* constant = to_dlpack(ones({2}));
  EXPECT_EQ(constant->flags, dlpack::kIsCopied);  // there was no memory to share
  EXPECT_EQ(static_cast<float*>(constant->dl_tensor.data)[1], 1);
  constant->deleter(constant);
}

TEST(Dlpack, GoesInAndOutInEveryDtype) {
  if (test_device().type() == DeviceType::opencl) GTEST_SKIP() << "OpenCL memory is not imported";
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (!test_device().supports(dtype)) continue;
    const Tensor x = tensor({0, 1, 1, 0, 1, 3}, {2, 3}, {.dtype = dtype, .device = test_device()});
    const Tensor shared = from_dlpack(to_dlpack(x)), copied = from_dlpack(to_dlpack_unversioned(x));
    for (const Tensor& y : {shared, copied}) {
      EXPECT_EQ(y.dtype(), dtype);
      EXPECT_EQ(y.shape(), x.shape());
      EXPECT_EQ(y.device(), test_device());
      EXPECT_EQ(y.to(Device::cpu()).to_vector<double>(), x.to(Device::cpu()).to_vector<double>());
    }
  }
  const Tensor empty = from_dlpack(to_dlpack(zeros({0, 2}, {.device = test_device()})));
  EXPECT_EQ(empty.shape(), Shape({0, 2}));
  EXPECT_EQ(from_dlpack(to_dlpack(scalar(4, {.device = test_device()}))).item(), 4);
}

TEST(Dlpack, SharesMemoryWithAnExportOfItsOwn) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "looks at the memory";
  const Tensor x = (arange(4).to(DType::f32) + 1).eval();
  const Tensor y = from_dlpack(to_dlpack(x));
  EXPECT_EQ(y.span<float>().data(), x.span<float>().data());
}

// A structure as another library would pass it.
template <class Managed>
struct Producer {
  std::vector<float> memory = counted(6);
  std::int64_t shape[2] = {2, 3}, strides[2] = {3, 1};
  int deleted = 0;
  Managed managed{};

  Producer() {
    managed.dl_tensor = {memory.data(), {dlpack::kCpu, 0}, 2, {dlpack::kFloat, 32, 1},
                         shape,         strides,           0};
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Producer*>(self->manager_ctx)->deleted; };
    if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) managed.version = {1, 3};
  }
};

template <class Managed>
void expect_deleted_once_in_the_end() {
  Producer<Managed> producer;
  Tensor y;
  {
    const Tensor x = from_dlpack(&producer.managed);
    EXPECT_EQ(x.span<float>().data(), producer.memory.data());
    y = x * 2;
  }
  EXPECT_EQ(producer.deleted, 0);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(producer.deleted, 1);
}

TEST(Dlpack, ImportsAreDeletedOnceInTheEnd) {
  expect_deleted_once_in_the_end<DLManagedTensorVersioned>();
  expect_deleted_once_in_the_end<DLManagedTensor>();
}

TEST(Dlpack, OffsetsStridesAndPageLockedMemory) {
  Producer<DLManagedTensorVersioned> producer;
  producer.managed.dl_tensor.byte_offset = 4;
  producer.shape[0] = 1;
  EXPECT_EQ(from_dlpack(&producer.managed).to_vector<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(producer.deleted, 1);
  Producer<DLManagedTensorVersioned> turned;
  std::swap(turned.shape[0], turned.shape[1]);
  std::swap(turned.strides[0], turned.strides[1]);
  turned.managed.dl_tensor.device.device_type = dlpack::kCudaHost;
  {
    const Tensor x = from_dlpack(&turned.managed);
    EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  }
  EXPECT_EQ(turned.deleted, 1);
  Producer<DLManagedTensor> plain;
  plain.managed.dl_tensor.strides = nullptr;
  EXPECT_EQ(from_dlpack(&plain.managed).to_vector<float>(), counted(6));
  Producer<DLManagedTensorVersioned> gaps;
  gaps.shape[1] = 2;
  const Tensor copy = from_dlpack(&gaps.managed);
  EXPECT_EQ(gaps.deleted, 1);  // copied
  EXPECT_EQ(copy.to_vector<float>(), (std::vector<float>{0, 1, 3, 4}));
}

TEST(Dlpack, WithoutADeleterNothingIsCalled) {
  Producer<DLManagedTensorVersioned> producer;
  producer.managed.deleter = nullptr;
  EXPECT_EQ(from_dlpack(&producer.managed).to_vector<float>(), counted(6));
  EXPECT_EQ(producer.deleted, 0);
}

}  // namespace
}  // namespace volta
