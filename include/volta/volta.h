// The headers that every program needs: tensors, gradients, layers, optimizers, data, weights in
// files. Headers that few source files use are not included, to keep compile times short:
//   <volta/models.h>                ready-made models; each is also a header <volta/models/...>
//   <volta/text/tokenizer.h>        GPT-2's tokenizer; text/generate.h is included
//   <volta/io/checkpoint.h>         training checkpoints
//   <volta/io/durable_file.h>       durable files, and locks
//   <volta/io/npy.h>                NumPy's files
//   <volta/io/state_dict_mapper.h>  renaming and reshaping state dicts
//   <volta/io/summary_writer.h>     TensorBoard's event files
//   <volta/safetensors.h>           safetensors files at the level of bytes
//   <volta/profiler.h>              time and memory of a program
//   <volta/transfers.h>             bytes moved between the host and devices
//   <volta/system_info.h>           build options, libraries and devices
//   <volta/kernel_cache.h>          the folder of compiled kernels
//   <volta/tuning.h>                kernel schedules chosen by timing
//   <volta/dlpack_abi.h>            DLPack's structures, for programs without its header
#pragma once

#include "volta/async.h"
#include "volta/attention.h"
#include "volta/autocast.h"
#include "volta/autograd.h"
#include "volta/convolution.h"
#include "volta/counters.h"
#include "volta/creation.h"
#include "volta/data.h"
#include "volta/device.h"
#include "volta/dlpack.h"
#include "volta/dtype.h"
#include "volta/error.h"
#include "volta/execution.h"
#include "volta/function.h"
#include "volta/generator.h"
#include "volta/indexing.h"
#include "volta/io.h"
#include "volta/log.h"
#include "volta/losses.h"
#include "volta/nn.h"
#include "volta/normalization.h"
#include "volta/ops.h"
#include "volta/optim.h"
#include "volta/placement.h"
#include "volta/pooling.h"
#include "volta/random.h"
#include "volta/recurrent.h"
#include "volta/shape.h"
#include "volta/tensor.h"
#include "volta/text/generate.h"
#include "volta/version.h"
