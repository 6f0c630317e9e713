"""Small files in the original formats of the datasets, written from scratch."""

from __future__ import annotations

import csv
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from graphcollab._base.torchvision import torchvision_datasets


def write_idx(path: Path, values: np.ndarray) -> None:
    """Write the format of MNIST: two zero bytes, the type (8: unsigned byte), the number of axes, sizes, values."""
    header = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
    path.write_bytes(header + values.astype(np.uint8).tobytes())


def write_mnist(folder: Path, images: dict[str, np.ndarray], labels: dict[str, np.ndarray]) -> None:
    folder.mkdir(parents=True)
    for split, prefix in (("train", "train"), ("test", "t10k")):
        write_idx(folder / f"{prefix}-images-idx3-ubyte", images[split])
        write_idx(folder / f"{prefix}-labels-idx1-ubyte", labels[split])


class _OldDtype:
    """Pickles as ``dtype('u1')`` did under Python 2 and the NumPy of 2009, with integers where booleans are now."""

    def __reduce__(self) -> tuple[Any, ...]:
        return np.dtype, ("u1", 0, 1), (3, "|", None, None, None, -1, -1, 0)


class _OldArray:
    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __reduce__(self) -> tuple[Any, ...]:
        state = (1, self.values.shape, _OldDtype(), False, self.values.tobytes())
        return np.empty(0).__reduce__()[0], (np.ndarray, (0,), b"b"), state


def write_cifar_batch(path: Path, images: np.ndarray, labels: np.ndarray, key: str) -> None:
    """Write images [N, 3, 32, 32] as one pickled batch of CIFAR: rows of 3072 bytes, channels first."""
    entry = {"data": _OldArray(images.reshape(len(images), -1)), key: [int(label) for label in labels]}
    path.write_bytes(pickle.dumps(entry, protocol=2))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def cifar100_root(tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Seven training and three test images of CIFAR-100; torchvision's checksums are of the real files."""
    dataset = torchvision_datasets().CIFAR100
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    images = rng.integers(0, 256, (10, 3, 32, 32), dtype=np.uint8)
    np.save(tmp_path / "images.npy", images)
    write_cifar_batch(folder / "train", images[:7], np.array([99, 0, 5, 5, 42, 1, 2]), "fine_labels")
    write_cifar_batch(folder / "test", images[7:], np.array([42, 99, 0]), "fine_labels")
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": [f"class {i}" for i in range(100)]}, protocol=2))
    monkeypatch.setattr(dataset, "train_list", [["train", None]])
    monkeypatch.setattr(dataset, "test_list", [["test", None]])
    monkeypatch.setattr(dataset, "meta", {**dataset.meta, "md5": None})
    return tmp_path


@pytest.fixture
def cifar10_root(tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ten training images in five batches and two test images of CIFAR-10."""
    dataset = torchvision_datasets().CIFAR10
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    images = rng.integers(0, 256, (12, 3, 32, 32), dtype=np.uint8)
    np.save(tmp_path / "images.npy", images)
    names = [name for name, _ in dataset.train_list]
    for i, name in enumerate(names):
        write_cifar_batch(folder / name, images[2 * i : 2 * i + 2], np.array([i, 9 - i]), "labels")
    write_cifar_batch(folder / "test_batch", images[10:], np.array([3, 9]), "labels")
    classes = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": classes}, protocol=2))
    monkeypatch.setattr(dataset, "train_list", [[name, None] for name in names])
    monkeypatch.setattr(dataset, "test_list", [["test_batch", None]])
    monkeypatch.setattr(dataset, "meta", {**dataset.meta, "md5": None})
    return tmp_path


@pytest.fixture
def svhn_root(tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five training and two test digits of SVHN: MATLAB's X [32, 32, 3, N] and y [N, 1], zero written as 10."""
    dataset = torchvision_datasets().SVHN
    images = rng.integers(0, 256, (7, 3, 32, 32), dtype=np.uint8)
    np.save(tmp_path / "images.npy", images)
    (tmp_path / "SVHN").mkdir()
    for split, part, labels in (("train", images[:5], [10, 1, 2, 9, 10]), ("test", images[5:], [1, 10])):
        file = tmp_path / "SVHN" / f"{split}_32x32.mat"
        savemat(file, {"X": part.transpose(2, 3, 1, 0), "y": np.array(labels, dtype=np.uint8)[:, None]})
    monkeypatch.setattr(dataset, "split_list", {split: [*rest[:2], None] for split, rest in dataset.split_list.items()})
    return tmp_path


def write_mini_imagenet_tables(root: Path, images: dict[str, dict[str, np.ndarray]]) -> None:
    """Write images[split class][file name] [H, W, 3] beside tables, as MiniImageNet is usually stored."""
    from PIL import Image

    splits = {"train": ["n01", "n02"], "val": ["n03"], "test": ["n04"]}
    (root / "images").mkdir(parents=True)
    for split, classes in splits.items():
        with (root / f"{split}.csv").open("w", newline="") as lines:
            writer = csv.writer(lines)
            writer.writerow(["filename", "label"])
            for name in classes:
                for file, pixels in images[name].items():
                    Image.fromarray(pixels).save(root / "images" / file, quality=95)
                    writer.writerow([file, name])


def write_mini_imagenet_folders(root: Path, tables: Path) -> None:
    """Write the same files as ``tables`` in a folder per class."""
    for split in ("train", "val", "test"):
        with (tables / f"{split}.csv").open(newline="") as lines:
            for row in csv.DictReader(lines):
                folder = root / split / row["label"]
                folder.mkdir(parents=True, exist_ok=True)
                (folder / row["filename"]).write_bytes((tables / "images" / row["filename"]).read_bytes())


@pytest.fixture
def mini_imagenet_root(tmp_path: Path, rng: np.random.Generator) -> Path:
    """Four classes with six images of 20 x 30 pixels each, in the usual three splits."""
    images = {
        name: {f"{name}{i:08d}.jpg": rng.integers(0, 256, (20, 30, 3), dtype=np.uint8) for i in range(6)}
        for name in ("n01", "n02", "n03", "n04")
    }
    root = tmp_path / "mini_imagenet"
    write_mini_imagenet_tables(root, images)
    return root
