"""MiniImageNet from its usual folder layouts."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from graphcollab._base.errors import DamagedError, DuplicateError, FormatError, MissingFileError, TooFewError
from graphcollab._base.keyed import keyed_order
from graphcollab._base.settings import Count, Real, Seed, checked
from graphcollab.data.datasets.arrays import scale_images, standardize
from graphcollab.data.datasets.labeled_arrays import LabeledArrays
from graphcollab.data.samples import Pool

_SPLITS = ("train", "val", "test")
_FOLDERS = ("mini_imagenet", "mini-imagenet", "miniImageNet", "MiniImageNet", "miniImagenet")
_SUFFIXES = (".jpg", ".jpeg", ".png")


@checked
def mini_imagenet(
    root: str | os.PathLike[str],
    size: Count = 84,
    test_fraction: Annotated[float, Real(above=0, below=1)] = 1 / 6,
    seed: Seed = 0,
) -> LabeledArrays:
    """Load MiniImageNet, pooled: 100 classes with 600 images each, split into training and test **within** a class.

    The usual files divide the classes (64 for training, 16 for validation, 20 for testing) for few-shot learning.
    Here, as in `Learning to Collaborate in Decentralized Learning of Personalized Models
    <https://doi.org/10.1109/CVPR52688.2022.00954>`_, all classes are pooled, and every class contributes 500 images to
    training and 100 to testing. The paper does not say which, so they are drawn by ``seed``. Two layouts are
    supported::

        images/*.jpg   train.csv  val.csv  test.csv     # columns filename,label
        train/<class>/*.jpg   val/<class>/*.jpg   test/<class>/*.jpg

    Images are resized to ``size`` x ``size`` (bilinear, without keeping the aspect ratio) and standardized per channel
    with the training images' mean and standard deviation. At size 84 the result takes 5 GB of memory.

    Args:
        root: The folder with these files, or one with a subfolder ``mini_imagenet`` (also ``mini-imagenet``,
            ``miniImageNet``, ``MiniImageNet``, ``miniImagenet``), which takes precedence.
        size: Height and width in pixels.
        test_fraction: Share of every class held out for testing, rounded to whole images. Default: 100 of 600.
        seed: Seed that selects the held-out images. The selection depends on the file names, not on the layout.

    Shapes:
        Inputs of the result: [N, 3, size, size].

    Raises:
        FileNotFoundError: Neither layout is complete, or a listed image is missing.
        ValueError: An image is listed twice or cannot be read, a table has other columns, or a class is too small
            for ``test_fraction``.
    """
    files = _find_files(Path(root))
    classes = sorted(files)
    train: list[tuple[Path, int]] = []
    test: list[tuple[Path, int]] = []
    for label, name in enumerate(classes):
        paths = sorted(files[name], key=lambda path: (path.name, str(path)))
        num_test = round(len(paths) * test_fraction)
        if not 0 < num_test < len(paths):
            raise TooFewError(
                f"class {name!r}",
                f"mini_imagenet: class {name} has {len(paths)} images, too few to hold out {test_fraction:.3g} of them",
            )
        held_out = set(keyed_order(seed, label, torch.arange(len(paths)))[:num_test].tolist())
        for index, path in enumerate(paths):
            (test if index in held_out else train).append((path, label))
    train_inputs, test_inputs = (scale_images(_read_images([path for path, _ in part], size)) for part in (train, test))
    standardize(train_inputs, test_inputs)
    train_targets, test_targets = (torch.tensor([label for _, label in part]) for part in (train, test))
    pools = Pool(train_inputs, train_targets), Pool(test_inputs, test_targets)
    return LabeledArrays("mini_imagenet", *pools, tuple(classes))


def _find_files(root: Path) -> dict[str, list[Path]]:
    for folder in (*(root / name for name in _FOLDERS), root):
        for ending, read in ((".csv", _from_tables), ("/", _from_folders)):
            missing = [f"{split}{ending}" for split in _SPLITS if not (folder / f"{split}{ending}").exists()]
            if missing and len(missing) < len(_SPLITS):
                hint = " (if your copy divides them otherwise, an empty folder will do)" if ending == "/" else ""
                raise MissingFileError(
                    f"folder {folder}",
                    f"mini_imagenet: {folder} lacks {', '.join(missing)}; all 100 classes need all three{hint}",
                )
            if not missing:
                return read(folder)
    raise MissingFileError(
        f"folder {root}",
        f"mini_imagenet: neither {root} nor a sub-folder {_FOLDERS[0]} holds train.csv, val.csv and test.csv, or the "
        "folders train/, val/ and test/: see datasets/mini_imagenet.md",
    )


def _from_tables(folder: Path) -> dict[str, list[Path]]:
    files: dict[str, list[Path]] = {}
    seen: set[str] = set()
    for table in (folder / f"{split}.csv" for split in _SPLITS):
        with table.open(newline="", encoding="utf-8") as lines:
            reader = csv.DictReader(lines)
            if not {"filename", "label"} <= set(reader.fieldnames or ()):
                raise FormatError(
                    f"file {table}",
                    f"mini_imagenet: {table} must have the columns filename,label, got {reader.fieldnames}",
                )
            for row in reader:
                name, label = row["filename"], row["label"]
                if not name or not label:
                    raise FormatError(
                        f"file {table}",
                        f"mini_imagenet: {table} line {reader.line_num} must be filename,label, got {row}",
                    )
                if name in seen:
                    raise DuplicateError(
                        f"file {table}", f"mini_imagenet: {name} is listed twice, the second time in {table}"
                    )
                seen.add(name)
                images = folder / "images"  # some copies have a subfolder per class
                path = next((path for path in (images / name, images / label / name) if path.is_file()), None)
                if path is None:
                    raise MissingFileError(
                        f"file {images / name}", f"mini_imagenet: {name} of class {label} is listed but not in {images}"
                    )
                files.setdefault(label, []).append(path)
    return files


def _from_folders(folder: Path) -> dict[str, list[Path]]:
    files: dict[str, list[Path]] = {}
    for path in (path for split in _SPLITS for path in sorted((folder / split).glob("*/*"))):
        if path.suffix.lower() in _SUFFIXES:
            files.setdefault(path.parent.name, []).append(path)
    if not files:
        raise MissingFileError(
            f"folder {folder}",
            f"mini_imagenet: {folder} has train/, val/ and test/, but no image <class>/*.jpg in them",
        )
    return files


def _read_images(paths: Sequence[Path], size: int) -> Tensor:
    """Read images as uint8 [N, 3, size, size]."""
    from PIL import Image

    images = torch.empty(len(paths), 3, size, size, dtype=torch.uint8)
    for index, path in enumerate(paths):
        try:
            with Image.open(path) as image:
                resized = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
        except OSError as error:  # Pillow's errors for unknown and truncated images are OSErrors
            raise DamagedError(
                f"file {path}", f"mini_imagenet: {path} is not an image that Pillow can read: {error}"
            ) from error
        # [size, size, 3] -> [3, size, size]
        images[index] = torch.from_numpy(np.array(resized)).permute(2, 0, 1)
    return images
