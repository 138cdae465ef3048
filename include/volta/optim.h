// Optimizers: they update parameters from their gradients, all in one operation on the device.
#pragma once

#include "volta/optim/adam.h"
#include "volta/optim/grad_scaler.h"
#include "volta/optim/optimizer.h"
#include "volta/optim/sgd.h"
