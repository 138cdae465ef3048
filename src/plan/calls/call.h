// A library call is a step outside the kernel language: a product, a convolution, attention or a
// sort. One object per kind of call answers all questions of the planner, explain(), VOLTA_CHECK
// and the tuner; values of that kind point to it (Value::call).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/steps.h"
#include "plan/lower/lowering.h"
#include "volta/execution.h"

namespace volta::plan {

// The layout in memory that a call requires of an operand. An operand in another layout is stored
// first.
enum class OperandLayout : std::uint8_t {
  Dense,    // contiguous, from the start of a buffer
  Matrix,   // a strided matrix or batch of matrices (matrix_view)
  Strided,  // an array with any strides, its last axis contiguous (strided_view)
};

// Operations after a call that can become part of it.
struct Epilogue {
  bool has_bias = false;
  Activation activation = Activation::None;
  bool keeps_input = false;  // the input of the activation is a second result
};

// The values of a plan, and which of them lie in buffers of their own (leaves not counted).
struct StoredValues {
  const std::vector<Value>& values;
  const std::vector<bool>& stored;
};

// A call whose buffers are not placed yet.
struct CallDraft {
  Step step;
  // The values whose buffers hold the operands, in the order of the step's bind(). -1 marks an
  // operand that does not have the required layout.
  std::vector<int> reads;
  Extent scratch_bytes = 0;  // arena memory that the call uses as scratch
  // The sizes of the step, as Call::resize takes them; none if they are not open.
  std::vector<Extent> sizes = {};
  int loop = -1;  // of a loop: which of Graph::loops
};

// A buffer that a call reads or writes.
struct CallBuffer {
  DType dtype;
  std::int64_t elements;
};

// A call in words, for explain() and profiles.
struct CallText {
  std::string what;
  std::string schedule = "library";
};

// The buffers of a plan in host memory.
struct HostBuffers {
  std::span<const Address> leaves, outputs;
  Address arena;

  std::byte* at(const BufferRef& buffer) const;
};
// Computes a step on the CPU with the host's copies of its buffers.
using Reference = std::function<void(const HostBuffers&)>;

// A buffer of a step, and the bytes that the step uses of it.
struct UsedBuffer {
  BufferRef* buffer;
  DType dtype;
  std::uint64_t bytes;
};

// The key under which tuned forms of a call are remembered: its kind, and sizes that are grouped
// into classes.
struct TuningKey {
  std::string text;
  std::vector<std::int64_t> sizes;
};

class VOLTA_BACKEND_API Call {
 public:
  virtual ~Call() = default;

  // ---- The kind of call.
  virtual const char* name() const = 0;
  // The index of the call's alternative in the variant Step.
  virtual std::size_t alternative() const = 0;
  virtual OperandLayout layout(std::size_t /*operand*/) const { return OperandLayout::Dense; }
  // Whether the call also writes results that nobody needs.
  virtual bool writes_all_results() const { return true; }

  // ---- From values to steps.
  // Drafts the step of a value, with the first `results` of its results. `massively_parallel` is
  // true for a GPU.
  virtual CallDraft draft(const StoredValues& plan, const Value& value, std::size_t results,
                          bool massively_parallel) const = 0;
  // Sets the sizes of a drafted step. Returns false if the step cannot have them.
  virtual bool resize(Step& /*step*/, std::span<const std::int64_t> /*sizes*/) const {
    return false;
  }
  // Whether the step is one only because the backend takes it (Backend::takes).
  virtual bool asks_support(const Step& /*step*/) const { return true; }
  // Whether operations after the value may become its epilogue. Operand 2 is then the bias, and
  // operand 3 the matrix that Activation::GeluGradient reads.
  virtual bool can_have_epilogue(const Value& /*value*/) const { return false; }
  // Whether a bias may become part of the call although the recorded result was first rounded to
  // half precision.
  virtual bool adds_bias_to_rounded() const { return false; }
  // The value's attributes with the epilogue; nothing if the device's library does not support it.
  virtual std::optional<std::vector<Extent>> with_epilogue(const std::vector<Value>& values,
                                                           const Value& value,
                                                           const Epilogue& epilogue,
                                                           const DeviceEntry& device) const;

  // ---- Steps.
  virtual CallText text(const Step& step) const = 0;
  // `reads` and `writes` are in the order of the step's bind().
  virtual StepCost cost(const Step& step, std::span<const CallBuffer> reads,
                        std::span<const CallBuffer> writes) const = 0;
  virtual Arithmetic arithmetic(const Step& /*step*/) const { return Arithmetic::Single; }
  // For VOLTA_CHECK: runs the only step of `plan` on the CPU; empty if the CPU cannot compute it.
  virtual Reference reference(PlanSteps plan) const;

  // ---- Tuning.
  // The forms in which the backend can run the step, the default first.
  virtual std::vector<std::string> forms(const Backend& /*backend*/, int /*device*/,
                                         const Step& /*step*/) const {
    return {};
  }
  // The following functions are only called for calls that have forms.
  virtual void set_form(Step& /*step*/, const std::string& /*form*/) const {}
  virtual TuningKey tuning_key(const Step& /*step*/) const { return {}; }
  virtual std::vector<UsedBuffer> buffers(Step& /*step*/) const { return {}; }
};

// The kind of call of a step; null for kernels.
VOLTA_BACKEND_API const Call* call_of(const Step& step);

// Sets the buffers of a call.
void bind(Step& step, std::span<const BufferRef> reads, std::span<const BufferRef> writes,
          const BufferRef& scratch);

// ---- Helpers for the implementations of calls.

Arithmetic arithmetic_of(DType dtype, bool tf32);
// Describes an epilogue, such as " + bias, relu".
std::string epilogue_text(bool has_bias, Activation activation);
// A further result of a call; `number` counts from 1.
Expr further_result(Lowering& lowering, Expr first, int number, DType dtype, const Shape& shape);

}  // namespace volta::plan
