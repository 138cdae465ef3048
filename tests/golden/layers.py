"""Golden values of layers.

The cases are not calls of single operations; tests/nn/layers_golden_test.cpp constructs them. A case `<layer>/<what>`
has the tensors x, state/<name> (parameters and buffers before), out, g, grad/x, grad/<parameter> and after/<buffer>;
if a layer keeps statistics, `before` is a batch that was processed first. Cases that end in train or eval have that
mode, others are the same in both. Halves are computed in f32 and rounded once.
"""
import copy
import zlib

import torch
from torch import nn

from golden import Family, integers, numbers


def prepare(module, name):
    """Fixed irregular parameters and buffers."""
    salt = zlib.crc32(name.encode()) % 1000
    with torch.no_grad():
        for i, (key, value) in enumerate(module.state_dict().items()):
            if value.dtype == torch.int64:
                value.fill_(3)
            elif key in ("running_var",):
                value.copy_(numbers(value.shape, 0.5, 2.0, salt=salt + i))
            else:
                value.copy_(numbers(value.shape, -1.0, 1.0, salt=salt + i))


def half(t):
    return t.to(torch.bfloat16) if t.is_floating_point() else t


def layer(family, name, module, x, before=None, bf16=False):
    modes = [("", module.training)]
    if before is not None:
        modes = [("/train", True), ("/eval", False)]
    for suffix, training in modes:
        run(family, name + suffix, copy.deepcopy(module), x, before, training, lambda t: t)
    if bf16:
        suffix, training = modes[0]
        run(family, name + "_bf16" + suffix, copy.deepcopy(module), x, before, training, half)


def run(family, name, module, x, before, training, rounded):
    prepare(module, name)
    with torch.no_grad():
        for value in module.state_dict().values():
            value.copy_(rounded(value.clone()))
    module.train(training)
    wide = lambda t: rounded(t).float() if t.is_floating_point() else t
    for key, value in module.state_dict().items():
        family.tensors[f"{name}/state/{key}"] = rounded(value.clone())
    if before is not None:
        family.tensors[f"{name}/before"] = rounded(before)
        module(wide(before))
    leaf = wide(x.clone()).requires_grad_(x.is_floating_point())
    out = module(leaf)
    g = rounded(numbers(out.shape, -1.0, 1.0, salt=7))
    out.backward(g.float())
    family.tensors[f"{name}/x"] = rounded(x)
    family.tensors[f"{name}/g"] = g
    family.tensors[f"{name}/out"] = rounded(out.detach())
    if leaf.grad is not None:
        family.tensors[f"{name}/grad/x"] = rounded(leaf.grad)
    for key, value in module.named_parameters():
        family.tensors[f"{name}/grad/{key}"] = rounded(value.grad)
    for key, value in module.named_buffers():
        family.tensors[f"{name}/after/{key}"] = rounded(value.clone())
    operation = name.split("/")[0]
    family.counts[operation] = family.counts.get(operation, 0) + 1


def convolutions(family):
    def case(name, module, shape, **kwargs):
        layer(family, name, module, numbers(shape, -2.0, 2.0), **kwargs)

    case("conv1d/plain", nn.Conv1d(3, 4, 3), (2, 3, 9), bf16=True)
    case("conv1d/options", nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2, bias=False), (2, 4, 9))
    case("conv1d/same", nn.Conv1d(3, 4, 4, padding="same", dilation=3), (2, 3, 9))
    case("conv1d/valid", nn.Conv1d(3, 4, 4, padding="valid"), (2, 3, 9))
    case("conv1d/reflect", nn.Conv1d(3, 4, 3, padding=2, padding_mode="reflect"), (2, 3, 9))
    case("conv1d/circular", nn.Conv1d(3, 4, 4, padding="same", padding_mode="circular"), (2, 3, 9))
    case("conv1d/unbatched", nn.Conv1d(3, 4, 3), (3, 9))

    case("conv2d/plain", nn.Conv2d(3, 4, 3, padding=1), (2, 3, 6, 5), bf16=True)
    case("conv2d/pairs", nn.Conv2d(3, 4, (3, 2), stride=(2, 1), padding=(2, 1), dilation=(1, 2)), (2, 3, 6, 5))
    case("conv2d/groups", nn.Conv2d(4, 6, 3, stride=2, groups=2, bias=False), (2, 4, 6, 5))
    case("conv2d/depthwise", nn.Conv2d(3, 6, 3, padding=1, groups=3), (2, 3, 6, 5))
    case("conv2d/same", nn.Conv2d(3, 4, (3, 4), padding="same", dilation=(2, 1)), (2, 3, 6, 5))
    case("conv2d/reflect", nn.Conv2d(3, 4, 3, padding=(2, 1), padding_mode="reflect"), (2, 3, 6, 5))
    case("conv2d/replicate", nn.Conv2d(3, 4, (2, 3), padding="same", padding_mode="replicate"), (2, 3, 6, 5))
    case("conv2d/circular", nn.Conv2d(3, 4, 3, stride=2, padding=(1, 2), padding_mode="circular"), (2, 3, 6, 5))
    case("conv2d/unbatched", nn.Conv2d(3, 4, 3, padding=1), (3, 6, 5))

    case("conv_transpose1d/plain", nn.ConvTranspose1d(3, 4, 3), (2, 3, 5))
    case("conv_transpose1d/options", nn.ConvTranspose1d(4, 6, 3, stride=3, padding=1, output_padding=2, groups=2,
                                                        bias=False, dilation=2), (2, 4, 5), bf16=True)
    case("conv_transpose1d/unbatched", nn.ConvTranspose1d(3, 4, 3), (3, 5))
    case("conv_transpose2d/plain", nn.ConvTranspose2d(3, 4, 3), (2, 3, 4, 5), bf16=True)
    case("conv_transpose2d/larger", nn.ConvTranspose2d(3, 4, 4, stride=2, padding=1), (2, 3, 4, 5))
    case("conv_transpose2d/options", nn.ConvTranspose2d(4, 6, (3, 2), stride=(2, 3), padding=(1, 0),
                                                        output_padding=(1, 2), groups=2, bias=False,
                                                        dilation=(1, 2)), (2, 4, 4, 3))
    case("conv_transpose2d/unbatched", nn.ConvTranspose2d(3, 4, 3, stride=2), (3, 4, 5))


def pools(family):
    def case(name, module, shape, **kwargs):
        layer(family, name, module, numbers(shape, -2.0, 2.0), **kwargs)

    row, image = (2, 3, 9), (2, 3, 7, 6)
    case("max_pool1d/plain", nn.MaxPool1d(2), row)
    case("max_pool1d/options", nn.MaxPool1d(3, stride=2, padding=1, dilation=2, ceil_mode=True), row)
    case("max_pool2d/plain", nn.MaxPool2d(2), image, bf16=True)
    case("max_pool2d/overlapping", nn.MaxPool2d(3, stride=2, padding=1), image)
    case("max_pool2d/pairs", nn.MaxPool2d((3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)), image)
    case("max_pool2d/ceil", nn.MaxPool2d(2, ceil_mode=True), image)
    case("max_pool2d/unbatched", nn.MaxPool2d(2), image[1:])
    case("avg_pool1d/plain", nn.AvgPool1d(2), row)
    case("avg_pool1d/options", nn.AvgPool1d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False), row)
    case("avg_pool2d/plain", nn.AvgPool2d(2), image, bf16=True)
    case("avg_pool2d/padded", nn.AvgPool2d(3, stride=2, padding=1), image)
    case("avg_pool2d/pairs", nn.AvgPool2d((3, 2), stride=(2, 1), padding=(1, 0), count_include_pad=False), image)
    case("avg_pool2d/ceil", nn.AvgPool2d(2, ceil_mode=True), image)
    case("avg_pool2d/unbatched", nn.AvgPool2d(2), image[1:])
    case("adaptive_avg_pool1d/plain", nn.AdaptiveAvgPool1d(4), row)
    case("adaptive_avg_pool2d/one", nn.AdaptiveAvgPool2d(1), image, bf16=True)
    case("adaptive_avg_pool2d/pair", nn.AdaptiveAvgPool2d((3, 4)), image)
    case("adaptive_avg_pool2d/width", nn.AdaptiveAvgPool2d((3, None)), image)


def norms(family):
    def case(name, module, shape, tracks=False, **kwargs):
        before = numbers(shape, -1.0, 3.0, salt=5) if tracks else None
        layer(family, name, module, numbers(shape, -2.0, 2.0), before=before, **kwargs)

    image = (3, 4, 3, 2)
    case("batch_norm1d/plain", nn.BatchNorm1d(4), (6, 4), True, bf16=True)
    case("batch_norm1d/length", nn.BatchNorm1d(4), (3, 4, 5), True)
    case("batch_norm2d/plain", nn.BatchNorm2d(4), image, True, bf16=True)
    case("batch_norm2d/options", nn.BatchNorm2d(4, eps=0.1, momentum=0.3), image, True)
    case("batch_norm2d/cumulative", nn.BatchNorm2d(4, momentum=None), image, True)
    case("batch_norm2d/not_affine", nn.BatchNorm2d(4, affine=False), image, True)
    case("batch_norm2d/untracked", nn.BatchNorm2d(4, track_running_stats=False), image, True)
    case("batch_norm2d/neither", nn.BatchNorm2d(4, affine=False, track_running_stats=False), image, True)

    case("layer_norm/plain", nn.LayerNorm(6), (4, 6), bf16=True)
    case("layer_norm/axes", nn.LayerNorm((3, 4), eps=0.1), (2, 3, 4))
    case("layer_norm/no_bias", nn.LayerNorm(6, bias=False), (4, 6))
    case("layer_norm/not_affine", nn.LayerNorm(6, elementwise_affine=False), (4, 6))
    case("rms_norm/plain", nn.RMSNorm(6), (4, 6), bf16=True)
    case("rms_norm/axes", nn.RMSNorm((3, 4), eps=0.1), (2, 3, 4))
    case("rms_norm/not_affine", nn.RMSNorm(6, elementwise_affine=False), (4, 6))
    layer(family, "rms_norm/small", nn.RMSNorm(6), numbers((4, 6), -2e-4, 2e-4))  # eps dominates here
    case("group_norm/plain", nn.GroupNorm(2, 4), image, bf16=True)
    case("group_norm/one", nn.GroupNorm(1, 4, eps=0.1), (3, 4, 5))
    case("group_norm/each", nn.GroupNorm(4, 4, affine=False), image)
    case("instance_norm2d/plain", nn.InstanceNorm2d(4), image, bf16=True)
    case("instance_norm2d/affine", nn.InstanceNorm2d(4, eps=0.1, affine=True), image)
    case("instance_norm2d/unbatched", nn.InstanceNorm2d(4, affine=True), image[1:])
    case("instance_norm2d/tracked", nn.InstanceNorm2d(4, track_running_stats=True), image, True)
    case("instance_norm2d/both", nn.InstanceNorm2d(4, eps=0.1, momentum=0.3, affine=True, track_running_stats=True),
         image, True)


def others(family):
    def case(name, module, shape, **kwargs):
        layer(family, name, module, numbers(shape, -2.0, 2.0), **kwargs)

    case("linear/plain", nn.Linear(5, 4), (3, 5), bf16=True)
    case("linear/no_bias", nn.Linear(5, 4, bias=False), (2, 3, 5))
    layer(family, "embedding/plain", nn.Embedding(7, 3), integers((2, 5), 0, 6), bf16=True)
    case("dropout/none", nn.Dropout(0.0), (3, 5))
    case("dropout/eval", nn.Dropout(0.4).eval(), (3, 5))
    case("dropout/all/train", nn.Dropout(1.0), (3, 5))
    case("dropout2d/none", nn.Dropout2d(0.0), (2, 3, 4, 5))
    case("dropout2d/eval", nn.Dropout2d(0.4).eval(), (2, 3, 4, 5))
    case("dropout2d/all/train", nn.Dropout2d(1.0), (2, 3, 4, 5))
    case("identity/plain", nn.Identity(), (2, 3))
    case("flatten/plain", nn.Flatten(), (2, 3, 4, 5))
    case("flatten/some", nn.Flatten(0, -2), (2, 3, 4, 5))
    case("unflatten/plain", nn.Unflatten(1, (2, 3)), (2, 6, 4))
    case("pixel_shuffle/plain", nn.PixelShuffle(2), (2, 8, 3, 4), bf16=True)
    case("pixel_unshuffle/plain", nn.PixelUnshuffle(2), (2, 3, 4, 6))
    case("upsample/nearest", nn.Upsample(scale_factor=2), (2, 3, 4, 5), bf16=True)
    case("upsample/size", nn.Upsample(size=(7, 6)), (2, 3, 4, 5))
    case("upsample/bilinear", nn.Upsample(scale_factor=(2.0, 1.5), mode="bilinear"), (2, 3, 4, 5))
    case("upsample/aligned", nn.Upsample(size=(7, 6), mode="bilinear", align_corners=True), (2, 3, 4, 5))


def activations(family):
    special = torch.tensor([-30.0, -6.0, -3.5, -1.0, -0.5, 0.0, 0.5, 1.0, 2.5, 6.0, 7.0, 30.0])
    x = torch.cat([special, numbers((12,), -4.0, 4.0)]).reshape(2, 3, 4)

    def case(name, module, **kwargs):
        layer(family, name, module, x, **kwargs)

    case("relu/plain", nn.ReLU(), bf16=True)
    case("relu6/plain", nn.ReLU6(), bf16=True)
    case("leaky_relu/plain", nn.LeakyReLU())
    case("leaky_relu/slope", nn.LeakyReLU(0.2))
    case("prelu/plain", nn.PReLU(), bf16=True)
    case("prelu/channels", nn.PReLU(3))
    case("elu/plain", nn.ELU())
    case("elu/alpha", nn.ELU(0.3))
    case("selu/plain", nn.SELU(), bf16=True)
    case("gelu/plain", nn.GELU())
    case("gelu/tanh", nn.GELU(approximate="tanh"))
    case("silu/plain", nn.SiLU())
    case("mish/plain", nn.Mish())
    case("softplus/plain", nn.Softplus())
    case("softplus/options", nn.Softplus(2.0, 3.0))
    case("softsign/plain", nn.Softsign(), bf16=True)
    case("sigmoid/plain", nn.Sigmoid())
    case("log_sigmoid/plain", nn.LogSigmoid(), bf16=True)
    case("hardsigmoid/plain", nn.Hardsigmoid(), bf16=True)
    case("hardswish/plain", nn.Hardswish())
    case("tanh/plain", nn.Tanh())
    case("hardtanh/plain", nn.Hardtanh())
    case("hardtanh/bounds", nn.Hardtanh(-0.5, 2.5), bf16=True)
    case("softmax/plain", nn.Softmax(dim=-1))
    case("softmax/channels", nn.Softmax(dim=1))
    case("log_softmax/plain", nn.LogSoftmax(dim=-1))
    case("glu/plain", nn.GLU(), bf16=True)


def cases():
    family = Family()
    convolutions(family)
    pools(family)
    norms(family)
    others(family)
    activations(family)
    return family
