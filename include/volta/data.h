// Data: datasets, loaders, transforms, readers of files, and progress bars.
#pragma once

#include "volta/data/csv.h"
#include "volta/data/dataset.h"
#include "volta/data/digits.h"
#include "volta/data/idx.h"
#include "volta/data/images.h"
#include "volta/data/loader.h"
#include "volta/data/progress.h"
#include "volta/data/random.h"
#include "volta/data/sampler.h"
#include "volta/data/text.h"
#include "volta/data/transforms.h"
