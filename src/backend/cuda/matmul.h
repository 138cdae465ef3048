// Matrix products through cuBLASLt: descriptors and algorithms are chosen once per shape and kept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "backend/backend.h"
#include "backend/cuda/context.h"
#include "backend/steps.h"
#include "backend/timed_choice.h"
#include "core/recent.h"

namespace volta::cuda {

// The known alignment of the operands in bytes: 16, 8, 4, 2 or 1. A larger alignment enables no
// further algorithms.
struct Alignment {
  std::uint32_t a = 16, b = 16, c = 16;
  friend bool operator==(const Alignment&, const Alignment&) = default;
};
Alignment alignment_of(CUdeviceptr a, CUdeviceptr b, CUdeviceptr c);

// Whether cuBLASLt supports the step's epilogue for matrices of these sizes.
bool takes_epilogue(const plan::MatmulStep& step);

// The addresses of a run's operands, including offsets; 0 for operands that the product does not
// have.
struct ProductAddresses {
  CUdeviceptr a = 0, b = 0, c = 0, bias = 0, other = 0;
};

class Product;

class MatmulLibrary {
 public:
  explicit MatmulLibrary(const Context& context) : context_(context) {}
  ~MatmulLibrary();
  MatmulLibrary(const MatmulLibrary&) = delete;
  MatmulLibrary& operator=(const MatmulLibrary&) = delete;

  // Plans the product; null if the library does not support it or is missing (logged once as a
  // warning). The first product starts the library. The context must be current.
  std::shared_ptr<const Product> product(const plan::MatmulStep& step, Alignment alignment,
                                         std::size_t stream_number);
  // Allocates the workspace for the products of a compute stream, once before the first of them. If
  // there is no memory, throws OutOfMemory, or with `low_memory` set lets products use algorithms
  // that need no workspace.
  void open_stream(std::size_t stream_number, bool low_memory);
  // An estimate of the host memory of the planned products.
  std::uint64_t bytes();
  // Drops the planned products; plans keep those that they use.
  void drop_unused();
  // Enqueues the product in a compute stream. Not thread-safe.
  void run(const Product& product, const ProductAddresses& at, CUstream stream,
           std::size_t stream_number) const;

 private:
  using Key = std::array<std::int64_t, 21>;

  bool start();
  // Whether the stream's products have a workspace; allocates it if they have none.
  bool claim_workspace(std::size_t stream_number);
  void set(const Product& product, cublasLtMatmulDescAttributes_t attribute, const void* value,
           std::size_t bytes) const;
  void set_address(const Product& product, cublasLtMatmulDescAttributes_t attribute,
                   CUdeviceptr value) const;
  void bind_epilogue(const Product& product, CUdeviceptr bias, CUdeviceptr other) const;
  std::shared_ptr<const Product> plan(const plan::MatmulStep& step, Alignment alignment,
                                      std::size_t workspace_bytes) const;
  ChoiceKey choice_of(const plan::MatmulStep& step, Alignment alignment) const;
  std::size_t fastest(const plan::MatmulStep& step, Alignment aligned, const Product& product,
                      std::span<const cublasLtMatmulHeuristicResult_t> candidates,
                      bool may_time) const;
  cublasStatus_t multiply(const Product& product, const cublasLtMatmulAlgo_t& algorithm,
                          CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, CUstream stream,
                          const DeviceMemory& workspace) const;
  void check(cublasStatus_t status, const char* doing) const;

  const Context& context_;
  cublasLtHandle_t handle_ = nullptr;
  std::array<DeviceMemory, kComputeStreams> workspaces_;  // by stream; empty if there was no memory
  std::mutex mutex_;
  Recent<Key, std::shared_ptr<const Product>> products_;
};

}  // namespace volta::cuda
