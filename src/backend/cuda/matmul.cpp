// Products by cuBLASLt, which works on column-major matrices. A row-major C = A B is the
// column-major C' = B' A', so the operands are passed swapped and nothing is transposed in memory.
#include "backend/cuda/matmul.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/log_once.h"
#include "volta/error.h"

namespace volta::cuda {

// The descriptors of one product, in the library's (swapped) order, and the algorithm to run.
class Product {
 public:
  explicit Product(const CublasLt& library) : library_(library) {}
  ~Product() {
    if (first != nullptr) library_.cublasLtMatrixLayoutDestroy(first);
    if (second != nullptr) library_.cublasLtMatrixLayoutDestroy(second);
    if (result != nullptr) library_.cublasLtMatrixLayoutDestroy(result);
    if (operation != nullptr) library_.cublasLtMatmulDescDestroy(operation);
    if (preference != nullptr) library_.cublasLtMatmulPreferenceDestroy(preference);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, result = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  bool is_double = false, has_bias = false, uses_other = false;

 private:
  const CublasLt& library_;
};

namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;  // as NVIDIA advises for Hopper
// The number of algorithms that are timed, the least number of multiply-adds for which they are,
// and the seconds this may take.
constexpr int kCandidates = 8;
constexpr double kLeastTimedWork = 1e8;
constexpr double kBudget = 0.1;
constexpr std::uint32_t kAlignment = 16;  // the largest that matters
// Activations need sizes that are multiples of this many elements.
constexpr std::int64_t kAlignedUnit = 8;

struct Types {
  cudaDataType_t data;  // of the operands
  cudaDataType_t scale;
  cublasComputeType_t compute;
};

std::optional<Types> types_of(const plan::MatmulStep& step) {
  switch (step.dtype) {
    case DType::f16:
      return Types{CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DType::bf16:
      return Types{CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DType::f32:
      return Types{CUDA_R_32F, CUDA_R_32F,
                   step.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
    case DType::f64:
      return Types{CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    default:
      return std::nullopt;
  }
}

// The library's description of a column-major matrix; nothing if the leading dimension would make
// columns overlap.
struct Layout {
  std::int64_t rows, columns, ld, stride;
};
std::optional<Layout> layout(std::int64_t rows, std::int64_t columns, std::int64_t ld,
                             std::int64_t stride) {
  if (columns > 1 && ld < rows) return std::nullopt;
  return Layout{rows, columns, std::max(ld, rows), stride};
}

std::uint32_t alignment(CUdeviceptr address) {
  return static_cast<std::uint32_t>(std::min<CUdeviceptr>(address & (~address + 1), 16));
}

cublasLtEpilogue_t epilogue_of(const plan::MatmulStep& step) {
  switch (step.activation) {
    case plan::Activation::None:
      return step.has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case plan::Activation::Relu:
      return step.has_bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case plan::Activation::Gelu:
      if (step.keeps_input)
        return step.has_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
      return step.has_bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case plan::Activation::GeluGradient:
      return CUBLASLT_EPILOGUE_DGELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

double work_of(const plan::MatmulStep& step) {
  return static_cast<double>(step.batch) * static_cast<double>(step.m) *
         static_cast<double>(step.n) * static_cast<double>(step.k);
}

}  // namespace

Alignment alignment_of(CUdeviceptr a, CUdeviceptr b, CUdeviceptr c) {
  return {alignment(a | 16), alignment(b | 16), alignment(c | 16)};
}

bool takes_epilogue(const plan::MatmulStep& step) {
  // With unaligned rows, its kernels turn NaN into 0 in a ReLU.
  return step.activation == plan::Activation::None ||
         (step.n % kAlignedUnit == 0 && step.k % kAlignedUnit == 0 && step.m % kAlignedUnit == 0);
}

bool MatmulLibrary::start() {
  if (handle_ != nullptr) return true;
  const Libraries& libraries = context_.libraries();
  if (!libraries.has_cublas) {
    log_once(
        "cuda.no_cublaslt", LogLevel::warning,
        libraries.cublas_missing + "; matrix products on CUDA run as generated kernels, slowly");
    return false;
  }
  const cublasStatus_t status = libraries.cublas.cublasLtCreate(&handle_);
  if (status == CUBLAS_STATUS_ALLOC_FAILED) {  // may succeed later
    handle_ = nullptr;
    return false;
  }
  check(status, "starting the library");
  return true;
}

bool MatmulLibrary::claim_workspace(std::size_t stream_number) {
  // Algorithms are timed in the first stream's workspace.
  for (const std::size_t each : {std::size_t{0}, stream_number}) {
    DeviceMemory& workspace = workspaces_[each];
    if (!workspace) workspace = DeviceMemory::try_allocate(context_, kWorkspaceBytes);
    if (!workspace) return false;
  }
  return true;
}

void MatmulLibrary::open_stream(std::size_t stream_number, bool low_memory) {
  const std::lock_guard lock(mutex_);
  if (!start() || claim_workspace(stream_number)) return;
  const std::string text =
      fmt::format("{}: no memory for the {} MiB in which matrix products of stream {} work",
                  context_.name(), kWorkspaceBytes >> 20, stream_number);
  if (!low_memory) throw OutOfMemory(text);
  log_once(fmt::format("{} no workspace {}", context_.name(), stream_number), LogLevel::warning,
           text + ": they run without, perhaps slower and rounded otherwise");
}

MatmulLibrary::~MatmulLibrary() {
  products_ = {};
  if (handle_ == nullptr) return;
  const ContextScope scope(context_, std::nothrow);
  context_.libraries().cublas.cublasLtDestroy(handle_);
}

void MatmulLibrary::check(cublasStatus_t status, const char* doing) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  // The library may have failed because of a fault of the device, which is reported first.
  if (const CUresult state = context_.driver().cuStreamQuery(context_.stream());
      state != CUDA_ERROR_NOT_READY) {
    context_.check(state, "running a matrix product");
  }
  throw BackendError(fmt::format("{}: cuBLASLt: {} failed: {}", context_.name(), doing,
                                 context_.libraries().cublas.cublasLtGetStatusString(status)));
}

std::uint64_t MatmulLibrary::bytes() {
  constexpr std::uint64_t kDescriptors = 1024;  // of the library, behind the pointers of a Product
  const std::lock_guard lock(mutex_);
  return products_.size() * (sizeof(Key) + sizeof(Product) + kDescriptors);
}

void MatmulLibrary::drop_unused() {
  const std::lock_guard lock(mutex_);
  products_.clear();
}

std::shared_ptr<const Product> MatmulLibrary::product(const plan::MatmulStep& step,
                                                      Alignment aligned,
                                                      std::size_t stream_number) {
  const Key key{static_cast<std::int64_t>(step.dtype),
                step.f32_result,
                step.transpose_a,
                step.transpose_b,
                step.tf32,
                step.m,
                step.n,
                step.k,
                step.batch,
                step.lda,
                step.ldb,
                step.ldc,
                step.stride_a,
                step.stride_b,
                step.stride_c,
                aligned.a,
                aligned.b,
                aligned.c,
                step.has_bias,
                static_cast<std::int64_t>(step.activation),
                step.keeps_input};
  const std::lock_guard lock(mutex_);
  if (!start()) return nullptr;
  // Without a workspace nothing is cached: there may be memory the next time.
  if (!claim_workspace(stream_number)) return plan(step, aligned, 0);
  if (const auto* known = products_.find(key)) return *known;
  auto planned = plan(step, aligned, kWorkspaceBytes);
  products_.put(key, planned);
  return planned;
}

ChoiceKey MatmulLibrary::choice_of(const plan::MatmulStep& step, Alignment aligned) const {
  return {
      fmt::format("{} sm{} cuBLASLt {}", context_.device_name(), context_.compute_capability(),
                  context_.libraries().cublas.cublasLtGetVersion()),
      fmt::format("product {} {} tf32 {} {}{} [{}, {}, {}] x {}, ld {} {} {}, strides {} {} {}, "
                  "aligned {} {} {}, bias {}, activation {} {}",
                  name_of(step.dtype), name_of(step.result_dtype()), step.tf32,
                  step.transpose_a ? "T" : "N", step.transpose_b ? "T" : "N", step.m, step.n,
                  step.k, step.batch, step.lda, step.ldb, step.ldc, step.stride_a, step.stride_b,
                  step.stride_c, aligned.a, aligned.b, aligned.c, step.has_bias,
                  static_cast<int>(step.activation), step.keeps_input),
      context_.device_name(), fmt::format("cuBLASLt: {}", step.label)};
}

std::shared_ptr<const Product> MatmulLibrary::plan(const plan::MatmulStep& step, Alignment aligned,
                                                   std::size_t workspace_bytes) const {
  const DeviceMemory& some = workspaces_[0];  // stands for operands of unknown address
  const auto types = types_of(step);
  const auto first = layout(step.transpose_b ? step.k : step.n, step.transpose_b ? step.n : step.k,
                            step.ldb, step.stride_b);
  const auto second = layout(step.transpose_a ? step.m : step.k, step.transpose_a ? step.k : step.m,
                             step.lda, step.stride_a);
  const auto result = layout(step.n, step.m, step.ldc, step.stride_c);
  const bool countable = step.batch <= std::numeric_limits<std::int32_t>::max();
  if (!types || !first || !second || !result || step.k == 0 || !countable) return nullptr;
  if (step.has_bias && !some) return nullptr;
  const bool is_aligned =
      aligned.a >= kAlignment && aligned.b >= kAlignment && aligned.c >= kAlignment;
  if (step.activation != plan::Activation::None && !is_aligned) return nullptr;
  if (step.uses_other() && !some) return nullptr;

  const CublasLt& library = context_.libraries().cublas;
  const auto product = std::make_shared<Product>(library);
  product->is_double = step.dtype == DType::f64;
  product->has_bias = step.has_bias;
  product->uses_other = step.uses_other();
  check(library.cublasLtMatmulDescCreate(&product->operation, types->compute, types->scale),
        "describing a product");
  const auto transpose = [&](cublasLtMatmulDescAttributes_t attribute, bool value) {
    const std::int32_t operation = value ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(*product, attribute, &operation, sizeof operation);
  };
  if (const cublasLtEpilogue_t epilogue = epilogue_of(step);
      epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
    set(*product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    // Any buffer has the alignment of this placeholder.
    if (step.has_bias) set_address(*product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, some.address());
    if (step.uses_other()) {
      set(*product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &step.n, sizeof step.n);
      set_address(*product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, some.address());
    }
  }
  transpose(CUBLASLT_MATMUL_DESC_TRANSA, step.transpose_b);
  transpose(CUBLASLT_MATMUL_DESC_TRANSB, step.transpose_a);

  const auto describe_matrix = [&](cublasLtMatrixLayout_t& matrix, const Layout& of,
                                   cudaDataType_t data) {
    check(library.cublasLtMatrixLayoutCreate(&matrix, data, static_cast<std::uint64_t>(of.rows),
                                             static_cast<std::uint64_t>(of.columns), of.ld),
          "describing a matrix");
    if (step.batch == 1) return;
    const std::int32_t batch = static_cast<std::int32_t>(step.batch);
    check(library.cublasLtMatrixLayoutSetAttribute(matrix, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                   &batch, sizeof batch),
          "describing a matrix");
    check(library.cublasLtMatrixLayoutSetAttribute(
              matrix, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &of.stride, sizeof of.stride),
          "describing a matrix");
  };
  describe_matrix(product->first, *first, types->data);
  describe_matrix(product->second, *second, types->data);
  describe_matrix(product->result, *result, step.f32_result ? CUDA_R_32F : types->data);

  check(library.cublasLtMatmulPreferenceCreate(&product->preference), "stating a preference");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check(library.cublasLtMatmulPreferenceSetAttribute(product->preference, attribute, &value,
                                                       sizeof value),
          "stating a preference");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned.b);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned.a);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned.c);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned.c);
  // Partial sums are added up in order through the workspace, never in the output's own memory.
  // Results thus have the same bits in every run and are accumulated in f32 if the output is f16 or
  // bf16.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));

  // Several candidates take five times as long as one.
  const bool has_choice =
      work_of(step) >= kLeastTimedWork && (step.may_time || is_chosen(choice_of(step, aligned)));
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> choices{};
  int found = 0;
  const cublasStatus_t status = library.cublasLtMatmulAlgoGetHeuristic(
      handle_, product->operation, product->first, product->second, product->result,
      product->result, product->preference, has_choice ? kCandidates : 1, choices.data(), &found);
  const bool refused =
      status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
  if (refused) return nullptr;
  check(status, "choosing an algorithm");
  const auto end = std::remove_if(choices.begin(), choices.begin() + found, [](const auto& choice) {
    return choice.state != CUBLAS_STATUS_SUCCESS;
  });
  const std::span<const cublasLtMatmulHeuristicResult_t> usable(choices.begin(), end);
  if (usable.empty()) return nullptr;
  product->algorithm = usable[fastest(step, aligned, *product, usable, workspace_bytes != 0)].algo;
  return product;
}

// The heuristics' first choice is not always the fastest. Candidates for products that take longer
// than a launch are timed on memory of their own, unless the step's sizes vary.
std::size_t MatmulLibrary::fastest(const plan::MatmulStep& step, Alignment aligned,
                                   const Product& product,
                                   std::span<const cublasLtMatmulHeuristicResult_t> candidates,
                                   bool may_time) const {
  if (candidates.size() < 2) return 0;
  std::vector<std::string> names;
  for (const auto& candidate : candidates)
    names.push_back(fmt::format("{:016x}", fmt::join(candidate.algo.data, "")));
  const ChoiceKey choice_key = choice_of(step, aligned);
  if (const auto known = remembered_candidate(choice_key, names)) return *known;
  // Remembered choices are for plans that have a workspace.
  if (!may_time || !step.may_time) return 0;

  const auto bytes = [&](std::int64_t rows, std::int64_t columns, std::int64_t ld,
                         std::int64_t stride, DType dtype) {
    const std::int64_t elements = (rows - 1) * ld + columns + (step.batch - 1) * stride;
    return static_cast<std::size_t>(elements) * size_of(dtype) + kAlignment;
  };
  const std::int64_t rows_a = step.transpose_a ? step.k : step.m,
                     rows_b = step.transpose_b ? step.n : step.k;
  const std::array<std::size_t, 4> sizes{
      bytes(rows_a, step.m + step.k - rows_a, step.lda, step.stride_a, step.dtype),
      bytes(rows_b, step.n + step.k - rows_b, step.ldb, step.stride_b, step.dtype),
      bytes(step.m, step.n, step.ldc, step.stride_c, step.result_dtype()),
      product.uses_other ? bytes(step.m, step.n, step.n, 0, step.result_dtype()) : 0};
  const std::array<std::uint32_t, 4> alignments{aligned.a, aligned.b, aligned.c, kAlignment};
  std::array<DeviceMemory, 4> memory;
  std::array<CUdeviceptr, 4> address{};
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (sizes[i] == 0) continue;
    memory[i] = DeviceMemory::try_allocate(context_, sizes[i]);
    if (!memory[i]) return 0;  // no memory for timing
    fill_with_numbers(context_, memory[i].address(), sizes[i]);
    address[i] = memory[i].address() + alignments[i] % kAlignment;
  }
  bind_epilogue(product, workspaces_[0].address(), address[3]);
  const auto seconds = [&](std::size_t candidate) -> std::optional<double> {
    return seconds_of_a_run(context_, [&] {
      return multiply(product, candidates[candidate].algo, address[0], address[1], address[2],
                      context_.stream(), workspaces_[0]) == CUBLAS_STATUS_SUCCESS;
    });
  };
  const std::optional<std::size_t> chosen = fastest_candidate(names.size(), seconds, kBudget);
  if (!chosen) return 0;
  remember_candidate(choice_key, names[*chosen]);
  return *chosen;
}

cublasStatus_t MatmulLibrary::multiply(const Product& product,
                                       const cublasLtMatmulAlgo_t& algorithm, CUdeviceptr a,
                                       CUdeviceptr b, CUdeviceptr c, CUstream stream,
                                       const DeviceMemory& workspace) const {
  const float one = 1, zero = 0;
  const double one_double = 1, zero_double = 0;
  const void* alpha = product.is_double ? static_cast<const void*>(&one_double) : &one;
  const void* beta = product.is_double ? static_cast<const void*>(&zero_double) : &zero;
  const auto pointer = [](CUdeviceptr address) { return std::bit_cast<void*>(address); };
  return context_.libraries().cublas.cublasLtMatmul(
      handle_, product.operation, alpha, pointer(b), product.first, pointer(a), product.second,
      beta, pointer(c), product.result, pointer(c), product.result, &algorithm,
      pointer(workspace.address()), workspace ? kWorkspaceBytes : 0, stream);
}

void MatmulLibrary::set(const Product& product, cublasLtMatmulDescAttributes_t attribute,
                        const void* value, std::size_t bytes) const {
  check(context_.libraries().cublas.cublasLtMatmulDescSetAttribute(product.operation, attribute,
                                                                   value, bytes),
        "describing a product");
}

void MatmulLibrary::set_address(const Product& product, cublasLtMatmulDescAttributes_t attribute,
                                CUdeviceptr value) const {
  const void* address = std::bit_cast<const void*>(value);
  set(product, attribute, static_cast<const void*>(&address), sizeof address);
}

void MatmulLibrary::bind_epilogue(const Product& product, CUdeviceptr bias,
                                  CUdeviceptr other) const {
  if (product.has_bias) set_address(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  if (product.uses_other) set_address(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, other);
}

void MatmulLibrary::run(const Product& product, const ProductAddresses& at, CUstream stream,
                        std::size_t stream_number) const {
  bind_epilogue(product, at.bias, at.other);
  check(multiply(product, product.algorithm, at.a, at.b, at.c, stream, workspaces_[stream_number]),
        "running a product");
}

}  // namespace volta::cuda
