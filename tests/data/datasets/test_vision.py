from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from graphcollab._base.torchvision import torchvision_datasets
from graphcollab.data.datasets import LabeledArrays
from graphcollab.data.datasets.vision import cifar10, cifar100, fashion_mnist, mnist, svhn
from tests.raising import raises

from .conftest import write_mnist


def standardized(train: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Independent standardization, in float64 and in units of pixels."""
    train = train.astype(np.float64)
    return (values - train.mean(axis=(0, 2, 3), keepdims=True)) / train.std(axis=(0, 2, 3), keepdims=True)


def check(data: LabeledArrays, train: np.ndarray, test: np.ndarray) -> None:
    np.testing.assert_allclose(data.train.inputs.numpy(), standardized(train, train), atol=1e-5)
    np.testing.assert_allclose(data.test.inputs.numpy(), standardized(train, test), atol=1e-5)
    assert data.train.inputs.is_contiguous()
    assert data.test.inputs.is_contiguous()


@pytest.mark.parametrize(("loader", "folder"), [(mnist, "MNIST"), (fashion_mnist, "FashionMNIST")])
def test_mnist_format(
    loader: Callable[..., LabeledArrays], folder: str, tmp_path: Path, rng: np.random.Generator
) -> None:
    images = rng.integers(0, 256, (8, 28, 28))
    labels = np.array([3, 1, 4, 1, 5, 9, 2, 6])
    write_mnist(
        tmp_path / folder / "raw",
        {"train": images[:5], "test": images[5:]},
        {"train": labels[:5], "test": labels[5:]},
    )
    data = loader(tmp_path)
    check(data, images[:5, None], images[5:, None])
    assert (data.train.targets.tolist(), data.test.targets.tolist()) == ([3, 1, 4, 1, 5], [9, 2, 6])
    assert (data.name, data.num_classes, data.input_shape) == (loader.__name__, 10, (1, 28, 28))


def test_cifar100_format(cifar100_root: Path) -> None:
    data, images = cifar100(cifar100_root), np.load(cifar100_root / "images.npy")
    check(data, images[:7], images[7:])
    assert data.train.targets.tolist() == [99, 0, 5, 5, 42, 1, 2]
    assert data.test.targets.tolist() == [42, 99, 0]
    assert (data.num_classes, data.class_names[42]) == (100, "class 42")


def test_cifar10_format(cifar10_root: Path) -> None:
    data, images = cifar10(cifar10_root), np.load(cifar10_root / "images.npy")
    check(data, images[:10], images[10:])
    assert data.train.targets.tolist() == [0, 9, 1, 8, 2, 7, 3, 6, 4, 5]
    assert (data.test.targets.tolist(), data.class_names[3]) == ([3, 9], "cat")


@pytest.mark.parametrize("nested", [True, False])
def test_svhn_format(nested: bool, svhn_root: Path) -> None:
    data, images = svhn(svhn_root if nested else svhn_root / "SVHN"), np.load(svhn_root / "images.npy")
    check(data, images[:5], images[5:])
    assert (data.train.targets.tolist(), data.test.targets.tolist()) == ([0, 1, 2, 9, 0], [1, 0])
    assert data.class_names == tuple("0123456789")


@pytest.mark.parametrize(
    ("loader", "folder"),
    [
        (mnist, "MNIST/raw"),
        (fashion_mnist, "FashionMNIST/raw"),
        (cifar10, "cifar-10-batches-py"),
        (cifar100, "cifar-100-python"),
        (svhn, "SVHN"),
    ],
)
def test_absent_files_say_where_and_what_to_do(
    loader: Callable[..., LabeledArrays], folder: str, tmp_path: Path
) -> None:
    with raises("missing-file", f"folder {tmp_path / folder}", "download=True", kind=FileNotFoundError):
        loader(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_checksum_is_refused_before_the_pickle_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-python"
    folder.mkdir()
    for name in ("train", "test", "meta"):
        (folder / name).write_bytes(pickle.dumps({"data": None}))
    with raises("missing-file", f"folder {folder}", kind=FileNotFoundError):
        cifar100(tmp_path)


def test_a_file_cut_short(tmp_path: Path, rng: np.random.Generator) -> None:
    images, labels = rng.integers(0, 256, (4, 28, 28)), np.arange(4)
    folder = tmp_path / "MNIST" / "raw"
    write_mnist(folder, {"train": images, "test": images}, {"train": labels, "test": labels})
    file = folder / "t10k-images-idx3-ubyte"
    file.write_bytes(file.read_bytes()[:1000])
    with raises("damaged", f"folder {folder}"):
        mnist(tmp_path)


def test_download_is_passed_on_and_its_errors_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def download(self: object) -> None:
        asked.append(type(self).__name__)
        raise RuntimeError("no network")

    for name in ("MNIST", "CIFAR10", "SVHN"):
        monkeypatch.setattr(torchvision_datasets().__dict__[name], "download", download)
    for loader in (mnist, fashion_mnist, cifar10, cifar100, svhn):
        with pytest.raises(RuntimeError, match="no network"):
            loader(tmp_path, download=True)
    assert asked == ["MNIST", "FashionMNIST", "CIFAR10", "CIFAR100", "SVHN"]


def holding(data_root: Path, path: str) -> Path:
    if not (data_root / path).exists():
        pytest.skip(f"needs real data: {data_root} does not hold {path}")
    return data_root


def check_real(data: LabeledArrays, sizes: tuple[int, int], mean: list[float], std: list[float]) -> None:
    """Check sizes, balance and, through the value of a black pixel, the published mean and standard deviation."""
    assert (len(data.train.inputs), len(data.test.inputs)) == sizes
    assert data.train.targets.bincount(minlength=10).min() > 0.08 * sizes[0]
    std_now, mean_now = torch.std_mean(data.train.inputs, dim=(0, 2, 3))
    assert torch.allclose(mean_now, torch.zeros(len(mean)), atol=1e-4)
    assert torch.allclose(std_now, torch.ones(len(mean)), atol=1e-4)
    black = data.train.inputs.amin(dim=(0, 2, 3))
    assert torch.allclose(black, -torch.tensor(mean) / torch.tensor(std), atol=5e-3)


def test_real_mnist(data_root: Path) -> None:
    data = mnist(holding(data_root, "MNIST/raw"))
    check_real(data, (60_000, 10_000), [0.1307], [0.3081])
    assert data.train.targets[:8].tolist() == [5, 0, 4, 1, 9, 2, 1, 3]


def test_real_fashion_mnist(data_root: Path) -> None:
    data = fashion_mnist(holding(data_root, "FashionMNIST/raw"))
    check_real(data, (60_000, 10_000), [0.2860], [0.3530])
    assert data.class_names[int(data.train.targets[0])] == "Ankle boot"


def test_real_cifar10(data_root: Path) -> None:
    data = cifar10(holding(data_root, "cifar-10-batches-py"))
    check_real(data, (50_000, 10_000), [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616])
    assert [data.class_names[label] for label in data.train.targets[:3].tolist()] == ["frog", "truck", "truck"]
