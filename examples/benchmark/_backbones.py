"""Torchvision's networks as backbones for small images: those of MAPL."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn

from graphcollab._base.settings import checked, look_up
from graphcollab._base.torchvision import torchvision_models
from graphcollab.components import Count


@checked
def torchvision_backbones(in_channels: Count = 3) -> dict[str, nn.Module]:
    """Return torchvision's GoogLeNet, ShuffleNet, ResNet-18 and AlexNet without classifiers, for small images, by name.

    They are the backbones of `MAPL: Model Agnostic Peer-to-peer Learning <https://arxiv.org/abs/2403.19792>`_
    (Mukherjee et al., 2024), whose images are 28 x 28 or 32 x 32. The paper does not say how it adapted them. Here the
    first layers, which leave a quarter of an image's width and height, keep its size instead, so that 32 x 32 pixels
    become 4 x 4 in the end (AlexNet: 3 x 3) and not 1 x 1 or none; all else is torchvision's, with random initial
    parameters:

    ==============  =============================================================================================
    name            what is changed
    ==============  =============================================================================================
    ``googlenet``   first convolution 3 x 3 with stride 1 (was 7 x 7, stride 2) and without the pooling behind it;
                    no auxiliary heads, no ``transform_input``, no dropout, PyTorch's initial parameters
    ``shufflenet``  ShuffleNet V2 1.0 (the paper cites V1, which torchvision does not have): first convolution with
                    stride 1 (was 2) and without the pooling behind it
    ``resnet18``    first convolution 3 x 3 with stride 1 (was 7 x 7, stride 2) and without the pooling behind it
    ``alexnet``     first convolution 3 x 3 with stride 1 (was 11 x 11, stride 4); no average pooling to 6 x 6
    ==============  =============================================================================================

    The linear classifiers are left out. Dropout goes with them: it is part of GoogLeNet's and AlexNet's classifiers,
    and with it AlexNet's two layers of 4096, so a backbone draws no random numbers in training. Three have batch
    normalization; `replace_batch_norm` replaces it.

    ==============  ===========  ===========  ======================  ======================
    name            parameters, by channels   numbers returned, by width and height
    --------------  ------------------------  ----------------------------------------------
    ..              1            3            28 x 28                 32 x 32
    ==============  ===========  ===========  ======================  ======================
    ``googlenet``   5,591,072    5,592,224    1,024                   1,024
    ``shufflenet``  1,253,172    1,253,604    1,024                   1,024
    ``resnet18``    11,167,680   11,168,832   512                     512
    ``alexnet``     2,447,040    2,448,192    1,024                   2,304
    ==============  ===========  ===========  ======================  ======================

    Args:
        in_channels: Channels of the images.
    """
    return {name: torchvision_backbone(name, in_channels) for name in _LARGE}


@checked
def torchvision_backbone(name: str, in_channels: Count = 3) -> nn.Module:
    """Return one of the networks of `torchvision_backbones`, by name; its argument and error are the same.

    Shapes:
        inputs: [B, in_channels, H, W], H and W at least 15.
        output: [B, features].
    """
    return look_up("backbone", name, _LARGE)(in_channels)


def _googlenet(in_channels: int) -> nn.Module:
    # Initial parameters are PyTorch's: torchvision announces them as its future default, and its old ones are slow.
    network: Any = torchvision_models().googlenet(
        weights=None, aux_logits=False, transform_input=False, init_weights=False
    )
    network.conv1.conv = nn.Conv2d(in_channels, 64, 3, padding=1, bias=False)
    network.maxpool1 = network.dropout = network.fc = nn.Identity()
    return cast(nn.Module, network)


def _shufflenet_v2(in_channels: int) -> nn.Module:
    network: Any = torchvision_models().shufflenet_v2_x1_0(weights=None)
    network.conv1[0] = nn.Conv2d(in_channels, 24, 3, padding=1, bias=False)
    network.maxpool = network.fc = nn.Identity()
    return cast(nn.Module, network)


def _resnet18(in_channels: int) -> nn.Module:
    network: Any = torchvision_models().resnet18(weights=None)
    network.conv1 = nn.Conv2d(in_channels, 64, 3, padding=1, bias=False)
    nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")  # as its other convolutions
    network.maxpool = network.fc = nn.Identity()
    return cast(nn.Module, network)


def _alexnet(in_channels: int) -> nn.Module:
    with torch.device("meta"):  # the classifier, most of AlexNet, is not worth a draw of 59 million numbers
        _, *layers = torchvision_models().alexnet(weights=None).features
    first = nn.Conv2d(in_channels, 64, 3, padding=1)
    for layer in layers:
        if isinstance(layer, nn.Conv2d):
            layer.to_empty(device=first.weight.device).reset_parameters()
    return nn.Sequential(first, *layers, nn.Flatten())


_LARGE = {"googlenet": _googlenet, "shufflenet": _shufflenet_v2, "resnet18": _resnet18, "alexnet": _alexnet}
