// What every program needs: tensors, gradients, layers, optimizers, data, weights in files.
// Left out, to keep compiling short, is what few source files of a program use:
//   <volta/models.h>                ready models, each also by itself: <volta/models/...>
//   <volta/text/tokenizer.h>        GPT-2's tokenizer; text/generate.h is included
//   <volta/io/checkpoint.h>         training checkpoints
//   <volta/io/durable_file.h>       files that survive a kill, locks of folders
//   <volta/io/npy.h>                NumPy's files
//   <volta/io/state_dict_mapper.h>  renaming and reshaping state dicts
//   <volta/io/summary_writer.h>     TensorBoard's event files
//   <volta/safetensors.h>           safetensors files on the level of bytes
//   <volta/profiler.h>              times and memory of a program
//   <volta/transfers.h>             bytes moved between the host and devices
//   <volta/system_info.h>           what the library was built with and finds
//   <volta/kernel_cache.h>          the folder of compiled kernels
//   <volta/tuning.h>                schedules of kernels that were timed
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
