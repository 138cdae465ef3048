// Initial values of parameters, as PyTorch's torch.nn.init. Each function makes a tensor on the
// device of the options (nothing is copied from elsewhere). The variants with a trailing underscore
// set the values of an existing tensor, such as a module's parameter, in place. No history is
// recorded.
#pragma once

#include "volta/generator.h"
#include "volta/tensor.h"

namespace volta::nn::init {

enum class Fan { in, out };
enum class Nonlinearity { linear, sigmoid, tanh, relu, leaky_relu, selu };

// The factor that preserves the variance through a nonlinearity; `slope` is that of leaky_relu.
VOLTA_API double gain(Nonlinearity nonlinearity, double slope = 0.01);

// The number of connections into and out of a unit, for a weight [out, in, window...].
struct Fans {
  double in, out;
};
VOLTA_API Fans fans(const Shape& shape);

struct XavierOptions {
  double gain = 1;
};
struct KaimingOptions {
  double a = 0;  // slope of leaky_relu
  Fan mode = Fan::in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
};
struct OrthogonalOptions {
  double gain = 1;
};

VOLTA_API Tensor constant(const Shape& shape, double value, const TensorOptions& options = {});
VOLTA_API Tensor uniform(const Shape& shape, double low = 0, double high = 1,
                         const TensorOptions& options = {});
VOLTA_API Tensor normal(const Shape& shape, double mean = 0, double deviation = 1,
                        const TensorOptions& options = {});
// The standard deviation is gain sqrt(2 / (fan in + fan out)).
VOLTA_API Tensor xavier_uniform(const Shape& shape, XavierOptions xavier = {},
                                const TensorOptions& options = {});
VOLTA_API Tensor xavier_normal(const Shape& shape, XavierOptions xavier = {},
                               const TensorOptions& options = {});
// The standard deviation is gain(nonlinearity, a) / sqrt(fan of the mode). Also known as He.
VOLTA_API Tensor kaiming_uniform(const Shape& shape, KaimingOptions kaiming = {},
                                 const TensorOptions& options = {});
VOLTA_API Tensor kaiming_normal(const Shape& shape, KaimingOptions kaiming = {},
                                const TensorOptions& options = {});
// Orthogonal rows (or columns, if there are fewer of them) of length gain; all axes but the first
// count as one. The distribution is uniform over all such matrices: the result is the orthogonal
// factor of a matrix of normal numbers, computed on the device by matrix products. It is orthogonal
// to within 1e-5 in f32 and 1e-12 in f64.
VOLTA_API Tensor orthogonal(const Shape& shape, OrthogonalOptions orthogonal = {},
                            const TensorOptions& options = {});

VOLTA_API void constant_(const Tensor& tensor, double value);
VOLTA_API void uniform_(const Tensor& tensor, double low = 0, double high = 1,
                        const Generator& generator = {});
VOLTA_API void normal_(const Tensor& tensor, double mean = 0, double deviation = 1,
                       const Generator& generator = {});
VOLTA_API void xavier_uniform_(const Tensor& tensor, XavierOptions xavier = {},
                               const Generator& generator = {});
VOLTA_API void xavier_normal_(const Tensor& tensor, XavierOptions xavier = {},
                              const Generator& generator = {});
VOLTA_API void kaiming_uniform_(const Tensor& tensor, KaimingOptions kaiming = {},
                                const Generator& generator = {});
VOLTA_API void kaiming_normal_(const Tensor& tensor, KaimingOptions kaiming = {},
                               const Generator& generator = {});
VOLTA_API void orthogonal_(const Tensor& tensor, OrthogonalOptions orthogonal = {},
                           const Generator& generator = {});

}  // namespace volta::nn::init
