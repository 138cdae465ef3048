// Ready-made models.
#pragma once

#include "volta/models/char_lstm.h"
#include "volta/models/dcgan.h"
#include "volta/models/espcn.h"
#include "volta/models/gpt2.h"
#include "volta/models/lenet.h"
#include "volta/models/mlp.h"
#include "volta/models/resnet.h"
#include "volta/models/vae.h"
#include "volta/models/vgg.h"
