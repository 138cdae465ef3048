// Everything a program needs.
#pragma once

#include "volta/autograd.h"
#include "volta/counters.h"
#include "volta/device.h"
#include "volta/dtype.h"
#include "volta/error.h"
#include "volta/execution.h"
#include "volta/io.h"
#include "volta/log.h"
#include "volta/nn.h"
#include "volta/ops.h"
#include "volta/optim.h"
#include "volta/random.h"
#include "volta/safetensors.h"
#include "volta/shape.h"
#include "volta/tensor.h"
#include "volta/version.h"
