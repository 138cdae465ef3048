// Adam and AdamW.
#include "volta/optim/adam.h"

#include <limits>

#include "volta/optimizer_ops.h"

namespace volta::optim {

namespace {

enum StateIndex : std::size_t { kFirst, kSecond, kStep };

}  // namespace

Adam::Adam(const char* name, std::vector<Tensor> parameters, const AdamOptions& options,
           bool decoupled)
    : Optimizer(name, std::move(parameters), options.lr,
                {{"exp_avg", true}, {"exp_avg_sq", true}, {"step", false}}),
      options_(options),
      decoupled_(decoupled) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  require_range("betas.first", options.betas.first, 0, 1);
  require_range("betas.second", options.betas.second, 0, 1);
  require_range("eps", options.eps, 0, kInfinity);
  require_range("weight_decay", options.weight_decay, 0, kInfinity);
}

Adam::Adam(std::vector<Tensor> parameters, AdamOptions options)
    : Adam("Adam", std::move(parameters), options, false) {}

AdamW::AdamW(std::vector<Tensor> parameters, AdamWOptions options)
    : Adam("AdamW", std::move(parameters),
           {.lr = options.lr,
            .betas = options.betas,
            .eps = options.eps,
            .weight_decay = options.weight_decay},
           true) {}

void Adam::update(std::span<const Tensor> parameters, States& states, Place place) {
  adam_step(parameters, states[kFirst], states[kSecond], states[kStep],
            {.lr = lr(),
             .beta1 = options_.betas.first,
             .beta2 = options_.betas.second,
             .eps = options_.eps,
             .weight_decay = options_.weight_decay,
             .decoupled = decoupled_,
             .scaled = scaled_step()},
            place);
}

}  // namespace volta::optim
