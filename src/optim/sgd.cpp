// SGD.
#include "volta/optim/sgd.h"

#include <limits>

#include "volta/error.h"
#include "volta/optimizer_ops.h"

namespace volta::optim {

SGD::SGD(std::vector<Tensor> parameters, SGDOptions options)
    : Optimizer("SGD", std::move(parameters), options.lr,
                options.momentum == 0 ? std::vector<StateKind>()
                                      : std::vector<StateKind>{{"momentum_buffer", true}}),
      options_(options) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  require_range("momentum", options.momentum, 0, kInfinity);
  require_range("weight_decay", options.weight_decay, 0, kInfinity);
  require_range("dampening", options.dampening, -kInfinity, kInfinity);
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0)) {
    throw ArgumentError("SGD: nesterov needs a momentum and no dampening");
  }
}

// The first step leaves the gradient itself in the buffer, undampened: m b + (1 - d) g = g.
Tensor SGD::initial_state(std::size_t kind, const Tensor& parameter) const {
  if (options_.dampening == 0) return Optimizer::initial_state(kind, parameter);
  Tensor gradient = parameter.grad();
  if (options_.weight_decay != 0) gradient = gradient + parameter.detach() * options_.weight_decay;
  return gradient * (options_.dampening / options_.momentum);
}

void SGD::update(std::span<const Tensor> parameters, States& states, Place place) {
  sgd_step(parameters, states.empty() ? std::span<Tensor>() : std::span<Tensor>(states[0]),
           {.lr = lr(),
            .momentum = options_.momentum,
            .dampening = options_.dampening,
            .weight_decay = options_.weight_decay,
            .nesterov = options_.nesterov,
            .scaled = scaled_step()},
           place);
}

}  // namespace volta::optim
