// Module: parameters, buffers and child modules under names, and a forward pass over them.
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

#include "volta/device.h"
#include "volta/dtype.h"
#include "volta/error.h"
#include "volta/io.h"
#include "volta/nn/parameter.h"
#include "volta/nn/shared.h"
#include "volta/nn/summary.h"
#include "volta/place.h"
#include "volta/place_scope.h"
#include "volta/tensor.h"

namespace volta::nn {

struct LoadStateOptions {
  bool strict = true;  // throw unless every name and shape fits
};

struct BufferOptions {
  // Whether state dicts must have it; otherwise it keeps its value where one does not.
  bool required = true;
};

// What load_state_dict found; each entry names the key and the shapes.
struct LoadReport {
  std::vector<std::string> missing;      // in the module only
  std::vector<std::string> unexpected;   // in the state dict only
  std::vector<std::string> wrong_shape;  // in both, with different shapes

  bool complete() const { return missing.empty() && unexpected.empty() && wrong_shape.empty(); }
};

class Module;

namespace detail {

// While one lives, the copies of members of a module that this thread makes are noted: those that
// have something to train or to save and were never added are the module's forgotten ones. The
// members are those that lie within the object.
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

// Throws ArgumentError if the modules whose parameters these are have called a module that was
// never added to them, and that got gradients nobody takes.
VOLTA_API void require_registered(const std::vector<Tensor>& trained);

// A module of any class, kept by value.
class AnyModule {
 public:
  template <std::derived_from<Module> M>
  explicit AnyModule(const M& module)
    requires std::copy_constructible<M>  // modules are handles: what cannot be copied is shared
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

// A shared handle: copies have the same parameters, buffers, children and mode. A module of one's
// own derives from Module, keeps its layers as members and adds each under a name in its
// constructor. Tensors it keeps besides parameters and buffers are not saved, moved or cloned.
//
// A member that was forgotten is an ArgumentError naming both classes: at the first parameters() or
// state_dict() where the module is itself part of another or of a list, since its size is known
// there, and for the outermost one at the first step of an optimizer after a forward pass that
// called the member. Modules that existed before the one that calls them came from outside and are
// no part of it, nor are those whose parameters() somebody asked for, frozen ones and those called
// under NoGrad; leave_out() says so of a member.
class VOLTA_API Module {
 public:
  Module();
  Module& operator=(const Module&) =
      delete;  // would leave the parent with the old one: use replace
  virtual ~Module();

  // Layers with other arguments define operator() instead.
  virtual Tensor forward(const Tensor& x);
  // Errors tell which layer below it they come from.
  Tensor operator()(const Tensor& x, Place place = Place::here());

  // The name of its class, without those of Volta's namespaces: "Linear", "Sequential".
  std::string kind() const;

  // ---- What is in it: its own first, then its children's, in the order they were added. Tensors
  // and modules reachable under several names are listed once, under the first.
  std::vector<Tensor> parameters() const;
  std::vector<std::pair<std::string, Tensor>> named_parameters() const;
  std::vector<std::pair<std::string, Tensor>> named_buffers() const;
  // Itself first, as "", and only as long as it lives. Each is of its class: dynamic_cast finds
  // out.
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> named_modules();
  // Calls `visit` for every module in it, children before their parents, once each.
  Module& apply(const std::function<void(Module&)>& visit);
  // Names, output shapes, parameters and operations of its layers for an input of that shape, as in
  // eval mode. Nothing is computed.
  Summary summary(const Shape& input, SummaryOptions options = {});
  // The same of what `call` does with it, for other arguments than one tensor.
  Summary summary(const std::function<void()>& call);

  // ---- State: parameters and buffers, under every name they have, with their values of now.
  StateDict state_dict() const;
  // Values are converted to the module's dtypes and devices. Strict, a mismatch throws one
  // ArgumentError that lists them all and changes nothing; otherwise what fits is loaded and the
  // rest reported.
  LoadReport load_state_dict(const StateDict& state, LoadStateOptions options = {});

  // ---- What changes it gives it back: model.eval().to(device).
  Module& zero_grad();
  Module& train(bool on = true);  // the mode of this module and all below it
  Module& eval() { return train(false); }
  // Whether parameters take gradients; without, they are left out of training.
  Module& requires_grad(bool on = true);
  // Moves or converts in place, gradients included: other handles, such as an optimizer's, follow.
  Module& to(Device device, Place place = Place::here());
  Module& to(DType dtype);  // floating parameters and buffers only
  Module& to(Device device, DType dtype);

  bool is_training() const;
  // Where everything is; throws DeviceError naming the strays. The CPU if there is nothing.
  Device device() const;

  // Puts `child` in place of the member added under that name: model.replace("fc", model.fc, ...).
  // Optimizers and copies of this module that were made before keep the former one.
  template <std::derived_from<Module> M>
  void replace(std::string_view name, M& member, const std::type_identity_t<M>& child) {
    M copy(child);  // `child` may be part of `member`
    replace_child(name, member, detail::AnyModule(copy));
    std::destroy_at(&member);
    std::construct_at(&member, std::move(copy));
  }

 protected:
  Module(const Module& other);  // of whole classes only: a Module alone has no forward pass

  template <std::derived_from<Module> M>
  void add(std::string name, const M& child) {
    add(std::move(name), detail::AnyModule(child));
  }
  void add(std::string name, const detail::AnyModule& child);
  // The member is deliberately no part of this module: it is not trained, moved or saved with it.
  void leave_out(const Module& member);
  // The tensor is made to require a gradient.
  Parameter add_parameter(std::string name, Tensor value);
  // Saved and moved with the module, but not trained.
  Buffer add_buffer(std::string name, const Tensor& value, BufferOptions options = {});
  // For a module that keeps its children otherwise than as members; `member` is the one there.
  void replace_child(std::string_view name, const Module& member, const detail::AnyModule& child);
  // For a layer with an operator() of its own: runs its body as operator()(x) runs forward(). What
  // it records is told as recorded at `place`.
  template <class Body>
  auto call(Place place, const Body& body) const {
    const Call call(*this, place);
    try {
      return body();
    } catch (Error& error) {
      call.add_path(error);
      throw;
    }
  }
  // For the same: tells a summary in progress of a call.
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
    Call(const Module& module, Place place);
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call();
    // Tells in an error which of the modules below the outermost one threw it.
    void add_path(Error& error) const;

   private:
    struct Calls;
    const Module& module_;
    const PlaceScope place_;
    const int exceptions_;
  };

  detail::Shared<State> state_;
};

// A module like this one with parameters and buffers of its own; what was tied or shared inside it
// is so in the copy. The class must be copyable and keep its modules, Parameters and Buffers by
// value.
template <std::derived_from<Module> M>
M clone(const M& module) {
  const detail::MemberWatch watch(module, std::addressof(module), sizeof(M));
  const detail::Cloning cloning;
  return M(module);
}

}  // namespace volta::nn
