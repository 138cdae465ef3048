// Neural networks: modules and the layers built on them.
#pragma once

#include "volta/nn/activation.h"
#include "volta/nn/clip_grad.h"
#include "volta/nn/dropout.h"
#include "volta/nn/embedding.h"
#include "volta/nn/init.h"
#include "volta/nn/layer_norm.h"
#include "volta/nn/linear.h"
#include "volta/nn/loss.h"
#include "volta/nn/module.h"
#include "volta/nn/parameter.h"
#include "volta/nn/sequential.h"
