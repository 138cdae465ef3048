// Symbol visibility. VOLTA_API marks symbols for users; VOLTA_BACKEND_API marks symbols that only
// backend libraries of the same build use.
#pragma once

#define VOLTA_API __attribute__((visibility("default")))
#define VOLTA_BACKEND_API __attribute__((visibility("default")))
