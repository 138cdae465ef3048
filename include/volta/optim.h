// Optimizers, which update all parameters from their gradients in one operation on the device, and
// learning-rate schedulers.
#pragma once

#include "volta/optim/adagrad.h"
#include "volta/optim/adam.h"
#include "volta/optim/grad_scaler.h"
#include "volta/optim/lion.h"
#include "volta/optim/lr_scheduler.h"
#include "volta/optim/muon.h"
#include "volta/optim/optimizer.h"
#include "volta/optim/param_group.h"
#include "volta/optim/rmsprop.h"
#include "volta/optim/sgd.h"
