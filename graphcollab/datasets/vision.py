"""Image datasets: scikit-learn's digits, and those in the formats that torchvision reads.

The latter come as [N, C, H, W] float32, standardised per channel with the mean and standard deviation of their own
training images (the numbers of the test images are never looked at), in the official order and split. They are read
from the folder ``root``; with ``download``, torchvision fetches what is missing. They raise FileNotFoundError if files
are not there, or a checksum is wrong, and ``download`` is False, and ValueError if files cannot be read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch

from graphcollab._torchvision import torchvision_datasets
from graphcollab.datasets.arrays import from_npz, scale_images, standardise
from graphcollab.datasets.labelled_arrays import LabelledArrays
from graphcollab.errors import DamagedError, MissingFileError, ShapeError
from graphcollab.settings import Real, Seed, checked

_CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@checked
def digits(test_fraction: Annotated[float, Real(above=0, below=1)] = 0.25, seed: Seed = 0) -> LabelledArrays:
    """Load 1,797 real handwritten digits of 8 x 8 pixels. They come with scikit-learn, so nothing is downloaded.

    They are the test part of `Optical Recognition of Handwritten Digits
    <https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits>`_. Pixel values 0 .. 16 are
    divided by 16 and not standardised. There is no official split, so one is drawn.

    Args:
        test_fraction: Share of all digits held out for testing, stratified by class. Default: a quarter (450 digits).
        seed: Chooses the split. Both parts keep scikit-learn's order.

    Shapes:
        Inputs of the result: [N, 1, 8, 8] in [0, 1].

    Raises:
        ValueError: ``test_fraction`` leaves a part with fewer than 10 digits.
    """
    from sklearn.datasets import load_digits  # scikit-learn takes a second to import
    from sklearn.model_selection import train_test_split

    loaded = load_digits()
    train, test = train_test_split(
        np.arange(len(loaded.target)), test_size=test_fraction, stratify=loaded.target, random_state=seed
    )
    # [1797, 8, 8] -> [1797, 1, 8, 8]
    inputs = torch.from_numpy(loaded.images).float().unsqueeze(1) / 16.0
    targets = torch.from_numpy(loaded.target).long()
    train, test = torch.from_numpy(np.sort(train)), torch.from_numpy(np.sort(test))
    names = tuple(map(str, loaded.target_names))
    return LabelledArrays("digits", inputs[train], targets[train], inputs[test], targets[test], names)


@checked
def mnist(root: str | os.PathLike[str], download: bool = False) -> LabelledArrays:
    """Load MNIST: 60,000 training and 10,000 test images of handwritten digits, 28 x 28 grey, from ``MNIST/raw``."""
    return _load_mnist("mnist", torchvision_datasets().MNIST, Path(root), download)


@checked
def fashion_mnist(root: str | os.PathLike[str], download: bool = False) -> LabelledArrays:
    """Load Fashion-MNIST: clothes in 10 classes, otherwise as MNIST, from ``FashionMNIST/raw``."""
    return _load_mnist("fashion_mnist", torchvision_datasets().FashionMNIST, Path(root), download)


@checked
def cifar10(root: str | os.PathLike[str], download: bool = False) -> LabelledArrays:
    """Load CIFAR-10: 50,000 training and 10,000 test images in 10 classes, 32 x 32 RGB, from ``cifar-10-batches-py``.

    Where that folder is absent, ``root/cifar10.npz`` is read instead if it is there: uint8 images x_train and x_test
    [N, 32, 32, 3] (another shape is a ValueError), labels y_train and y_test [N]. Nothing is downloaded then.
    """
    root = Path(root)
    dataset = torchvision_datasets().CIFAR10
    archive = root / "cifar10.npz"
    if not (root / dataset.base_folder).is_dir() and archive.is_file():
        stored = from_npz(archive, class_names=_CIFAR10_CLASSES)
        if stored.input_shape != (3, 32, 32):
            raise ShapeError(
                f"file {archive}",
                f"cifar10: {archive} must hold images [N, 32, 32, 3], got samples of shape {stored.input_shape}",
            )
        standardise(stored.train_inputs, stored.test_inputs)
        return stored
    return _load_cifar("cifar10", dataset, root, download, also=f" or of the archive {archive}")


@checked
def cifar100(root: str | os.PathLike[str], download: bool = False) -> LabelledArrays:
    """Load CIFAR-100 with its 100 fine labels, otherwise as CIFAR-10, from ``cifar-100-python``."""
    return _load_cifar("cifar100", torchvision_datasets().CIFAR100, Path(root), download)


@checked
def svhn(root: str | os.PathLike[str], download: bool = False) -> LabelledArrays:
    """Load Street View House Numbers, cropped: 73,257 training and 26,032 test digits, 32 x 32 RGB.

    The 531,131 extra images are left out. Label 0 is the digit 0, which the files call 10. The files
    ``train_32x32.mat`` and ``test_32x32.mat`` are in ``root`` or a folder ``SVHN`` there, into which they are fetched.
    """
    # torchvision puts the .mat files straight into the folder it is given; beside other datasets they get one of theirs
    folder = Path(root) if (Path(root) / "train_32x32.mat").is_file() else Path(root) / "SVHN"
    dataset, splits = torchvision_datasets().SVHN, ({"split": "train"}, {"split": "test"})
    opened = [_open("svhn", dataset, folder, folder, download=download, **split) for split in splits]
    return _standardised("svhn", opened, lambda images: images, "labels", tuple(map(str, range(10))))


def _load_mnist(name: str, dataset: Any, root: Path, download: bool) -> LabelledArrays:
    folder = root / dataset.__name__ / "raw"
    opened = [_open(name, dataset, root, folder, train=train, download=download) for train in (True, False)]
    # [N, 28, 28] -> [N, 1, 28, 28]
    return _standardised(name, opened, lambda images: images[:, None], "targets", dataset.classes)


def _load_cifar(name: str, dataset: Any, root: Path, download: bool, also: str = "") -> LabelledArrays:
    folder = root / dataset.base_folder
    opened = [_open(name, dataset, root, folder, also, train=train, download=download) for train in (True, False)]
    # [N, 32, 32, 3] -> [N, 3, 32, 32]
    return _standardised(name, opened, lambda images: images.transpose(0, 3, 1, 2), "targets", opened[0].classes)


def _open(name: str, dataset: Any, root: Path, folder: Path, also: str = "", **options: Any) -> Any:
    """Open one split with torchvision, and say where it looked if that fails."""
    try:
        return dataset(str(root), **options)
    except Exception as error:  # torchvision and the parsers below it raise many kinds for damaged files
        if options["download"]:
            raise  # about the network: torchvision's own words say most
        if isinstance(error, RuntimeError) and "not found" in str(error):
            raise MissingFileError(
                f"folder {folder}",
                f"{name}: torchvision found no intact files in {folder}{also}; give the root that holds them, "
                "or download=True to fetch them",
            ) from error
        raise DamagedError(
            f"folder {folder}",
            f"{name}: the files in {folder} cannot be read ({type(error).__name__}: {error}); "
            "remove them and fetch them again with download=True",
        ) from error


def _standardised(
    name: str, opened: list[Any], arrange: Callable[[Any], Any], labels: str, class_names: tuple[str, ...]
) -> LabelledArrays:
    """Build the dataset from opened splits, whose images ``arrange`` brings to [N, C, H, W] uint8."""
    train, test = (scale_images(torch.as_tensor(arrange(part.data)).contiguous()) for part in opened)
    standardise(train, test)
    targets = [torch.as_tensor(getattr(part, labels), dtype=torch.int64) for part in opened]
    return LabelledArrays(name, train, targets[0], test, targets[1], class_names)
