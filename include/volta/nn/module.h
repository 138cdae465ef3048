// Module: named parameters, buffers and child modules, and a forward pass over them.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "volta/detail/shared_part.h"
#include "volta/detail/source_location_scope.h"
#include "volta/device.h"
#include "volta/dtype.h"
#include "volta/error.h"
#include "volta/io.h"
#include "volta/nn/parameter.h"
#include "volta/nn/summary.h"
#include "volta/source_location.h"
#include "volta/tensor.h"

namespace volta::nn {

struct LoadStateOptions {
  bool strict = true;  // throw unless every name and shape fits
};

struct BufferOptions {
  // State dicts must contain the buffer; otherwise a missing one keeps its value.
  bool required = true;
};

// The result of load_state_dict; each entry names the key and the shapes.
struct LoadReport {
  std::vector<std::string> missing;      // only in the module
  std::vector<std::string> unexpected;   // only in the state dict
  std::vector<std::string> wrong_shape;  // in both, with different shapes

  bool complete() const { return missing.empty() && unexpected.empty() && wrong_shape.empty(); }
};

class Module;

namespace detail {

// While it lives, notes the members of a module that this thread copies: those that have parameters
// or buffers and were never added are the module's forgotten members. Members are the modules that
// lie inside the object.
class VOLTA_API MemberWatch {
 public:
  MemberWatch(const Module& whole, const void* object, std::size_t bytes);
  MemberWatch(const MemberWatch&) = delete;
  MemberWatch& operator=(const MemberWatch&) = delete;
  ~MemberWatch();

 private:
  friend class volta::nn::Module;
  static void copied(const Module& original);
  void note_forgotten() const;

  const Module& whole_;
  const void* const begin_;
  const void* const end_;
  MemberWatch* const outer_;
  std::vector<const Module*> members_;
};

template <class M>
std::shared_ptr<M> copied_module(const M& module) {
  const MemberWatch watch(module, std::addressof(module), sizeof(M));
  return std::make_shared<M>(module);
}

// Throws ArgumentError if the modules that own these parameters have called a module that was never
// added to them and whose gradients no optimizer uses.
VOLTA_API void require_registered(const std::vector<Tensor>& trained);

// A module of any class, kept by value.
class AnyModule {
 public:
  template <std::derived_from<Module> M>
  explicit AnyModule(const M& module)
    requires std::copy_constructible<M>  // modules are handles, so they must be copyable
      : module_(copied_module(module)), copy_([](const Module& other) {
          return std::shared_ptr<Module>(std::make_shared<M>(static_cast<const M&>(other)));
        }) {}
  AnyModule(const AnyModule& other)
      : module_(Cloning::current() ? other.copy_(*other.module_) : other.module_),
        copy_(other.copy_) {}
  AnyModule(AnyModule&& other) noexcept = default;
  AnyModule& operator=(AnyModule other) noexcept {
    module_ = std::move(other.module_);
    copy_ = other.copy_;
    return *this;
  }
  ~AnyModule() = default;

  Module& operator*() const { return *module_; }
  Module* operator->() const { return module_.get(); }
  const std::shared_ptr<Module>& pointer() const { return module_; }

 private:
  std::shared_ptr<Module> module_;
  std::shared_ptr<Module> (*copy_)(const Module&);
};

}  // namespace detail

// A shared handle: copies have the same parameters, buffers, children and mode. To define a module,
// derive from Module, keep the layers as members and add each of them under a name in the
// constructor. Other tensors in the object are not saved, moved or cloned.
//
// A member that was not added is an ArgumentError naming both classes. If the module is part of
// another module or a list, which know its size, the error is thrown by the first parameters() or
// state_dict(). For the outermost module it is thrown by an optimizer's first step after a forward
// pass that called the member. Not reported are modules older than their caller, which were passed
// to it from outside, modules whose parameters() were requested, frozen modules, modules called
// under NoGrad, and members named in leave_out().
class VOLTA_API Module {
 public:
  Module();
  Module& operator=(const Module&) =
      delete;  // would leave the old module in the parent: use replace
  virtual ~Module();

  // Layers with other arguments define operator() instead of forward().
  virtual Tensor forward(const Tensor& x);
  // Calls forward(). Errors name the layer below this module that they come from.
  Tensor operator()(const Tensor& x, SourceLocation place = SourceLocation::here());

  // The name of the class without Volta's namespaces: "Linear", "Sequential".
  std::string kind() const;

  // ---- Content: the module's own first, then its children's, in the order in which they were
  // added. Tensors and modules with several names are listed once, under the first name.
  std::vector<Tensor> parameters() const;
  std::vector<std::pair<std::string, Tensor>> named_parameters() const;
  std::vector<std::pair<std::string, Tensor>> named_buffers() const;
  // Lists this module first, under "", with a pointer that is valid only as long as the module
  // lives. Use dynamic_cast to find the class of a module.
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> named_modules();
  // Calls `visit` once for every module, children before their parents.
  Module& apply(const std::function<void(Module&)>& visit);
  // Names, output shapes, parameters and operations of the layers for an input of this shape in
  // eval mode. Nothing is computed.
  Summary summary(const Shape& input, SummaryOptions options = {});
  // Summarises the calls that `call` makes, for modules with other arguments than one tensor.
  Summary summary(const std::function<void()>& call);

  // ---- State: parameters and buffers under all their names, with their current values.
  StateDict state_dict() const;
  // Values are converted to the module's dtypes and devices. If strict, a mismatch throws one
  // ArgumentError that lists all mismatches and changes nothing; otherwise the fitting entries are
  // loaded and the others reported.
  LoadReport load_state_dict(const StateDict& state, LoadStateOptions options = {});

  // ---- These functions return the module itself: model.eval().to(device).
  Module& zero_grad();
  Module& train(bool on = true);  // sets the mode of this module and all modules below it
  Module& eval() { return train(false); }
  // Sets whether parameters get gradients; parameters without gradients are not trained.
  Module& requires_grad(bool on = true);
  // Moves or converts in place, including gradients, so other handles such as an optimizer's
  // follow.
  Module& to(Device device, SourceLocation place = SourceLocation::here());
  Module& to(DType dtype);  // floating parameters and buffers only
  Module& to(Device device, DType dtype);

  bool is_training() const;
  // Returns the device of all tensors; throws DeviceError naming those elsewhere. The CPU for an
  // empty module.
  Device device() const;

  // Replaces the member that was added under this name: model.replace("fc", model.fc, ...).
  // Optimizers and copies of this module that were made before keep the former member.
  template <std::derived_from<Module> M>
  void replace(std::string_view name, M& member, const std::type_identity_t<M>& child) {
    M copy(child);  // `child` may be part of `member`
    replace_child(name, member, detail::AnyModule(copy));
    std::destroy_at(&member);
    std::construct_at(&member, std::move(copy));
  }

 protected:
  Module(const Module& other);  // protected: a Module alone has no forward pass

  template <std::derived_from<Module> M>
  void add(std::string name, const M& child) {
    add(std::move(name), detail::AnyModule(child));
  }
  void add(std::string name, const detail::AnyModule& child);
  // Declares that the member is not part of this module: it is not trained, moved or saved with it.
  void leave_out(const Module& member);
  // Makes the tensor require a gradient.
  Parameter add_parameter(std::string name, Tensor value);
  // Adds a tensor that is saved and moved with the module, but not trained.
  Buffer add_buffer(std::string name, const Tensor& value, BufferOptions options = {});
  // For modules that do not keep their children as members; `member` is the current child.
  void replace_child(std::string_view name, const Module& member, const detail::AnyModule& child);
  // Runs the body of a layer's own operator() as operator()(x) runs forward(). Operations in it are
  // reported with the source location `place`.
  template <class Body>
  auto call(SourceLocation place, const Body& body) const {
    const Call call(*this, place);
    try {
      return body();
    } catch (Error& error) {
      call.failed(error);
      throw;
    }
  }
  // Called by a layer's own operator(): reports the call to a summary in progress.
  void called(std::initializer_list<Tensor> inputs, std::initializer_list<Tensor> outputs) const;

 private:
  friend class detail::MemberWatch;
  friend void detail::require_registered(const std::vector<Tensor>& trained);
  struct State;
  struct Suspects;
  class Watch;
  // A call in progress.
  class VOLTA_API Call {
   public:
    Call(const Module& module, SourceLocation place);
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call();
    // The error leaves the call. The outermost call adds to it which of the modules below threw it.
    void failed(Error& error) const;

   private:
    struct Calls;
    void add_path(Error& error) const;

    const Module& module_;
    const SourceLocationScope place_;
  };

  detail::Shared<State> state_;
};

// Returns a module with its own copies of the parameters and buffers; what was tied or shared
// inside the original is tied or shared in the copy. The class must be copyable and keep its
// modules, Parameters and Buffers by value.
template <std::derived_from<Module> M>
M clone(const M& module) {
  const detail::MemberWatch watch(module, std::addressof(module), sizeof(M));
  const detail::Cloning cloning;
  return M(module);
}

}  // namespace volta::nn
