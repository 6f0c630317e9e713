"""Image datasets: scikit-learn's digits, and datasets in the formats that torchvision reads.

The latter are [N, C, H, W] float32, standardized per channel with the mean and standard deviation of their own
training images (never of the test images), in the official order and split. They are read from the folder ``root``;
with ``download``, torchvision fetches missing files. Loaders raise FileNotFoundError if files are missing or a checksum
is wrong and ``download`` is False, and ValueError if files cannot be read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from graphcollab._base.errors import DamagedError, MissingFileError
from graphcollab._base.settings import Real, Seed, checked
from graphcollab._base.torchvision import torchvision_datasets
from graphcollab.data.datasets.arrays import from_arrays, standardize
from graphcollab.data.datasets.labeled_arrays import LabeledArrays

_BY_TRAIN = ({"train": True}, {"train": False})  # torchvision's arguments for the two splits of most datasets


@checked
def digits(test_fraction: Annotated[float, Real(above=0, below=1)] = 0.25, seed: Seed = 0) -> LabeledArrays:
    """Load 1,797 real handwritten digits of 8 x 8 pixels. They come with scikit-learn, so nothing is downloaded.

    They are the test part of `Optical Recognition of Handwritten Digits
    <https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits>`_. Pixel values 0 .. 16 are
    divided by 16 and not standardized. There is no official split, so one is drawn.

    Args:
        test_fraction: Share of all digits held out for testing, stratified by class. Default: a quarter (450 digits).
        seed: Seed of the split. Both parts keep scikit-learn's order.

    Shapes:
        Inputs of the result: [N, 1, 8, 8] in [0, 1].

    Raises:
        ValueError: ``test_fraction`` leaves fewer than 10 digits in a part.
    """
    from sklearn.datasets import load_digits  # scikit-learn takes a second to import
    from sklearn.model_selection import train_test_split

    loaded = load_digits()
    train, test = train_test_split(
        np.arange(len(loaded.target)), test_size=test_fraction, stratify=loaded.target, random_state=seed
    )
    images = loaded.images[:, None] / 16.0  # [1797, 8, 8] -> [1797, 1, 8, 8]
    first, second = ((images[index], loaded.target[index]) for index in (np.sort(train), np.sort(test)))
    return from_arrays(*first, *second, "digits")


@checked
def mnist(root: str | os.PathLike[str], download: bool = False) -> LabeledArrays:
    """Load MNIST: 60,000 training and 10,000 test images of handwritten digits, 28 x 28 gray, from ``MNIST/raw``."""
    return _load("mnist", torchvision_datasets().MNIST, Path(root), "MNIST/raw", download)


@checked
def fashion_mnist(root: str | os.PathLike[str], download: bool = False) -> LabeledArrays:
    """Load Fashion-MNIST: clothes in 10 classes, otherwise like MNIST, from ``FashionMNIST/raw``."""
    return _load("fashion_mnist", torchvision_datasets().FashionMNIST, Path(root), "FashionMNIST/raw", download)


@checked
def cifar10(root: str | os.PathLike[str], download: bool = False) -> LabeledArrays:
    """Load CIFAR-10: 50,000 training and 10,000 test images in 10 classes, 32 x 32 RGB (``cifar-10-batches-py``)."""
    dataset = torchvision_datasets().CIFAR10
    return _load("cifar10", dataset, Path(root), dataset.base_folder, download)


@checked
def cifar100(root: str | os.PathLike[str], download: bool = False) -> LabeledArrays:
    """Load CIFAR-100 with its 100 fine labels, otherwise like CIFAR-10, from ``cifar-100-python``."""
    dataset = torchvision_datasets().CIFAR100
    return _load("cifar100", dataset, Path(root), dataset.base_folder, download)


@checked
def svhn(root: str | os.PathLike[str], download: bool = False) -> LabeledArrays:
    """Load Street View House Numbers, cropped: 73,257 training and 26,032 test digits, 32 x 32 RGB.

    The 531,131 extra images are omitted. Label 0 is the digit 0, which the files call 10. The files
    ``train_32x32.mat`` and ``test_32x32.mat`` are in ``root`` or its subfolder ``SVHN``, which is also the download
    folder.
    """
    # torchvision puts the .mat files directly into the folder it is given; use a subfolder next to other datasets
    folder = Path(root) if (Path(root) / "train_32x32.mat").is_file() else Path(root) / "SVHN"
    return _load("svhn", torchvision_datasets().SVHN, folder, "", download, [{"split": "train"}, {"split": "test"}])


def _load(name: str, dataset: Any, root: Path, within: str, download: bool, splits: Any = _BY_TRAIN) -> LabeledArrays:
    """Open both splits with torchvision, or report the searched location, and standardize their images."""
    folder = root / within
    try:
        train, test = (dataset(str(root), download=download, **split) for split in splits)
    except Exception as error:  # torchvision and its parsers raise many kinds of errors for damaged files
        if download:
            raise  # a network error: torchvision's message is the most informative
        if isinstance(error, RuntimeError) and "not found" in str(error):
            raise MissingFileError(
                f"folder {folder}", f"{name}: torchvision found no intact files in {folder}: give download=True"
            ) from error
        raise DamagedError(
            f"folder {folder}",
            f"{name}: the files in {folder} cannot be read ({type(error).__name__}: {error}): remove them",
        ) from error
    labels = [np.asarray(part.targets if hasattr(part, "targets") else part.labels) for part in (train, test)]
    stored = from_arrays(train.data, labels[0], test.data, labels[1], name, getattr(train, "classes", None))
    standardize(stored.train.inputs, stored.test.inputs)
    return stored
