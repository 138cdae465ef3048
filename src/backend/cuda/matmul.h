// Matrix products through cuBLASLt: descriptors and algorithms, chosen once per shape and kept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "backend/backend.h"
#include "backend/cuda/context.h"
#include "core/recent.h"
#include "plan/plan_steps.h"

namespace volta::cuda {

// Bytes the operands are known to be aligned to: 16, 8, 4, 2 or 1. More brings no other algorithms.
struct Alignment {
  std::uint32_t a = 16, b = 16, c = 16;
  friend bool operator==(const Alignment&, const Alignment&) = default;
};
Alignment alignment_of(CUdeviceptr a, CUdeviceptr b, CUdeviceptr c);

// Whether cuBLASLt has the step's epilogue for matrices of these sizes.
bool takes_epilogue(const plan::MatmulStep& step);

// Where the operands of a run are, their offsets included; what the product does not have is 0.
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

  // How to run the product; null when the library does not take it, or when there is none (said
  // once, as a warning). The library is started by the first product. The context is current.
  std::shared_ptr<const Product> product(const plan::MatmulStep& step, Alignment alignment,
                                         std::size_t lane);
  // Claims the memory in which the lane's products work, once before the first of them. Where there
  // is none: throws OutOfMemory or, `frugal`, products run by algorithms that do without.
  void open_lane(std::size_t lane, bool frugal);
  // Enqueues it, for the work of a lane. One at a time.
  void run(const Product& product, const ProductAddresses& at, CUstream stream,
           std::size_t lane) const;

 private:
  using Key = std::array<std::int64_t, 21>;

  bool start();
  // Whether products of the lane have memory to work in, claimed now if they had none.
  bool claim_workspace(std::size_t lane);
  void set(const Product& product, cublasLtMatmulDescAttributes_t attribute, const void* value,
           std::size_t bytes) const;
  void set_address(const Product& product, cublasLtMatmulDescAttributes_t attribute,
                   CUdeviceptr value) const;
  void bind_epilogue(const Product& product, CUdeviceptr bias, CUdeviceptr other) const;
  std::shared_ptr<const Product> plan(const plan::MatmulStep& step, Alignment alignment,
                                      std::size_t workspace_bytes) const;
  std::size_t fastest(const plan::MatmulStep& step, Alignment aligned, const Product& product,
                      std::span<const cublasLtMatmulHeuristicResult_t> candidates,
                      bool may_time) const;
  cublasStatus_t multiply(const Product& product, const cublasLtMatmulAlgo_t& algorithm,
                          CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, CUstream stream,
                          const DeviceMemory& workspace) const;
  void check(cublasStatus_t status, const char* doing) const;

  const Context& context_;
  cublasLtHandle_t handle_ = nullptr;
  std::array<DeviceMemory, kComputeLanes> workspaces_;  // by lane; empty: there was no memory
  std::mutex mutex_;
  Recent<Key, std::shared_ptr<const Product>> products_;
};

}  // namespace volta::cuda
