// LeNet.
#include "volta/models/lenet.h"

#include "volta/pooling.h"

namespace volta::models {

LeNet::LeNet(LeNetOptions options)
    : conv1(options.channels, 6, 5,
            {.padding = 2, .dtype = options.dtype, .device = options.device}),
      conv2(6, 16, 5, {.dtype = options.dtype, .device = options.device}),
      fc1(16 * 5 * 5, 120, {.dtype = options.dtype, .device = options.device}),
      fc2(120, 84, {.dtype = options.dtype, .device = options.device}),
      fc3(84, options.classes, {.dtype = options.dtype, .device = options.device}) {
  add("conv1", conv1);
  add("conv2", conv2);
  add("fc1", fc1);
  add("fc2", fc2);
  add("fc3", fc3);
}

Tensor LeNet::forward(const Tensor& x) {
  Tensor h = max_pool2d(conv1(x).relu(), 2);
  h = max_pool2d(conv2(h).relu(), 2);
  return fc3(fc2(fc1(h.flatten(1)).relu()).relu());
}

}  // namespace volta::models
