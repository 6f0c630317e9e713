"""Image datasets in the formats that torchvision reads.

All of them come as [N, C, H, W] float32, standardised per channel with the mean and standard deviation of their own
training images (the numbers of the test images are never looked at), in the official order and split.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphcollab._torchvision import torchvision_datasets
from graphcollab.datasets._images import scale_images, standardise
from graphcollab.datasets.labelled_arrays import LabelledArrays
from graphcollab.datasets.npz import from_npz
from graphcollab.settings import checked

__all__ = ["cifar10", "cifar100", "fashion_mnist", "mnist", "svhn"]

_CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@checked
def mnist(root: str | os.PathLike[str], download: bool = False) -> LabelledArrays:
    """Load MNIST: 60,000 training and 10,000 test images of handwritten digits, 28 x 28 grey.

    Args:
        root: Folder that holds ``MNIST/raw``.
        download: Fetch what is missing, through torchvision.

    Shapes:
        Inputs of the result: [N, 1, 28, 28], standardised.

    Raises:
        FileNotFoundError: The files are not there and ``download`` is False.
        ValueError: The files are there but cannot be read.
    """
    return _load_mnist("mnist", torchvision_datasets().MNIST, Path(root), download)


@checked
def fashion_mnist(root: str | os.PathLike[str], download: bool = False) -> LabelledArrays:
    """Load Fashion-MNIST: 60,000 training and 10,000 test images of clothes in 10 classes, 28 x 28 grey.

    Args:
        root: Folder that holds ``FashionMNIST/raw``.
        download: Fetch what is missing, through torchvision.

    Shapes:
        Inputs of the result: [N, 1, 28, 28], standardised.

    Raises:
        FileNotFoundError: The files are not there and ``download`` is False.
        ValueError: The files are there but cannot be read.
    """
    return _load_mnist("fashion_mnist", torchvision_datasets().FashionMNIST, Path(root), download)


@checked
def cifar10(root: str | os.PathLike[str], download: bool = False) -> LabelledArrays:
    """Load CIFAR-10: 50,000 training and 10,000 test images in 10 classes, 32 x 32 RGB.

    Where torchvision's folder is absent, ``root/cifar10.npz`` is read instead if it is there: uint8 images x_train
    and x_test [N, 32, 32, 3], labels y_train and y_test [N]. Nothing is downloaded then.

    Args:
        root: Folder that holds ``cifar-10-batches-py`` or ``cifar10.npz``.
        download: Fetch what is missing, through torchvision.

    Shapes:
        Inputs of the result: [N, 3, 32, 32], standardised.

    Raises:
        FileNotFoundError: Neither is there, or a checksum is wrong, and ``download`` is False.
        ValueError: The files are there but cannot be read, or hold images of another shape.
    """
    root = Path(root)
    dataset = torchvision_datasets().CIFAR10
    archive = root / "cifar10.npz"
    if not (root / dataset.base_folder).is_dir() and archive.is_file():
        stored = from_npz(archive, class_names=_CIFAR10_CLASSES)
        if stored.input_shape != (3, 32, 32):
            raise ValueError(
                f"cifar10: {archive} must hold images [N, 32, 32, 3], got samples of shape {stored.input_shape}"
            )
        standardise(stored.train_inputs, stored.test_inputs)
        return stored
    return _load_cifar("cifar10", dataset, root, download, also=f" or of the archive {archive}")


@checked
def cifar100(root: str | os.PathLike[str], download: bool = False) -> LabelledArrays:
    """Load CIFAR-100 with its 100 fine labels: 50,000 training and 10,000 test images, 32 x 32 RGB.

    Args:
        root: Folder that holds ``cifar-100-python``.
        download: Fetch what is missing, through torchvision.

    Shapes:
        Inputs of the result: [N, 3, 32, 32], standardised.

    Raises:
        FileNotFoundError: The files are not there, or a checksum is wrong, and ``download`` is False.
        ValueError: The files are there but cannot be read.
    """
    return _load_cifar("cifar100", torchvision_datasets().CIFAR100, Path(root), download)


@checked
def svhn(root: str | os.PathLike[str], download: bool = False) -> LabelledArrays:
    """Load Street View House Numbers, cropped: 73,257 training and 26,032 test digits, 32 x 32 RGB.

    The 531,131 extra images are left out. Label 0 is the digit 0, which the files call 10.

    Args:
        root: Folder that holds ``train_32x32.mat`` and ``test_32x32.mat``, or a folder ``SVHN`` with them.
        download: Fetch what is missing into ``root/SVHN``, through torchvision.

    Shapes:
        Inputs of the result: [N, 3, 32, 32], standardised.

    Raises:
        FileNotFoundError: The files are not there, or a checksum is wrong, and ``download`` is False.
        ValueError: The files are there but cannot be read.
    """
    # torchvision puts the .mat files straight into the folder it is given; beside other datasets they get one of theirs
    folder = Path(root) if (Path(root) / "train_32x32.mat").is_file() else Path(root) / "SVHN"
    dataset = torchvision_datasets().SVHN
    train = _open("svhn", folder, dataset, folder, split="train", download=download)
    test = _open("svhn", folder, dataset, folder, split="test", download=download)
    return _standardised(
        "svhn", train.data, train.labels, test.data, test.labels, class_names=[str(digit) for digit in range(10)]
    )


def _load_mnist(name: str, dataset: Any, root: Path, download: bool) -> LabelledArrays:
    folder = root / dataset.__name__ / "raw"
    train = _open(name, folder, dataset, root, train=True, download=download)
    test = _open(name, folder, dataset, root, train=False, download=download)
    # [N, 28, 28] -> [N, 1, 28, 28]
    return _standardised(
        name, train.data[:, None], train.targets, test.data[:, None], test.targets, class_names=dataset.classes
    )


def _load_cifar(name: str, dataset: Any, root: Path, download: bool, also: str = "") -> LabelledArrays:
    folder = root / dataset.base_folder
    train = _open(name, folder, dataset, root, also, train=True, download=download)
    test = _open(name, folder, dataset, root, also, train=False, download=download)
    # [N, 32, 32, 3] -> [N, 3, 32, 32]
    images = [part.data.transpose(0, 3, 1, 2) for part in (train, test)]
    return _standardised(name, images[0], train.targets, images[1], test.targets, class_names=train.classes)


def _open(name: str, folder: Path, dataset: Any, root: Path, also: str = "", **options: Any) -> Any:
    """Open one split with torchvision, and say where it looked if that fails."""
    try:
        return dataset(str(root), **options)
    except Exception as error:  # torchvision and the parsers below it raise many kinds for damaged files
        if options["download"]:
            raise  # about the network: torchvision's own words say most
        if isinstance(error, RuntimeError) and "not found" in str(error):
            raise FileNotFoundError(
                f"{name}: torchvision found no intact files in {folder}{also}; give the root that holds them, "
                "or download=True to fetch them"
            ) from error
        raise ValueError(
            f"{name}: the files in {folder} cannot be read ({type(error).__name__}: {error}); "
            "remove them and fetch them again with download=True"
        ) from error


def _standardised(
    name: str,
    train_images: np.ndarray | Tensor,
    train_targets: Any,
    test_images: np.ndarray | Tensor,
    test_targets: Any,
    class_names: Sequence[str],
) -> LabelledArrays:
    """Build the dataset from uint8 images [N, C, H, W]."""
    train, test = (scale_images(torch.as_tensor(images).contiguous()) for images in (train_images, test_images))
    standardise(train, test)
    return LabelledArrays(
        name=name,
        train_inputs=train,
        train_targets=torch.as_tensor(train_targets, dtype=torch.int64),
        test_inputs=test,
        test_targets=torch.as_tensor(test_targets, dtype=torch.int64),
        class_names=tuple(class_names),
    )
