// Symbol visibility. VOLTA_API marks what users link against; VOLTA_BACKEND_API what only backend
// libraries of the same build use.
#pragma once

#define VOLTA_API __attribute__((visibility("default")))
#define VOLTA_BACKEND_API __attribute__((visibility("default")))
