from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from graphcollab import load_dataset
from graphcollab.data.datasets.catalog import DATASETS, TABLES
from tests.raising import raises

CARDS = Path(__file__).parents[3] / "datasets"


def test_names() -> None:
    assert list(DATASETS) == ["digits", "cifar10", "cifar100", "fashion_mnist", "mnist", "svhn", "mini_imagenet"]
    assert list(TABLES) == ["heart_disease", "parkinsons"]


def test_every_dataset_has_a_card_that_is_listed() -> None:
    listed = (CARDS / "README.md").read_text()
    for name in (*DATASETS, *TABLES, "arrays"):
        assert (CARDS / f"{name}.md").is_file()
        assert f"({name}.md)" in listed


def test_cards_cannot_be_imported() -> None:
    assert list(CARDS.rglob("*.py")) == []


def test_the_digits_need_no_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAPHCOLLAB_DATA", raising=False)
    assert len(load_dataset("digits", test_fraction=0.5).test.inputs) == 899
    assert len(load_dataset("digits", root="nowhere", download=True).test.inputs) == 450


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("CIFAR-10", "cifar10"),
        ("fashionmnist", "fashion_mnist"),
        ("MiniImageNet", "mini_imagenet"),
        ("digit", "digits"),
        ("heart-disease", "heart_disease"),
    ],
)
def test_unknown_names_get_the_nearest(name: str, nearest: str) -> None:
    with raises("unknown", "dataset", repr(name), f"did you mean {nearest!r}"):
        load_dataset(name)


@pytest.mark.parametrize(
    "name", [name for name, load in {**DATASETS, **TABLES}.items() if "root" in inspect.signature(load).parameters]
)
def test_without_a_root(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAPHCOLLAB_DATA", raising=False)
    with raises("missing", "root", name, "GRAPHCOLLAB_DATA"):
        load_dataset(name)


def test_root_from_the_environment(cifar100_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHCOLLAB_DATA", str(cifar100_root))
    assert load_dataset("cifar100").name == "cifar100"
    with raises("missing-file", f"folder {cifar100_root / 'elsewhere' / 'cifar-100-python'}", kind=FileNotFoundError):
        load_dataset("cifar100", root=cifar100_root / "elsewhere")


def test_options_are_passed_on(mini_imagenet_root: Path) -> None:
    data = load_dataset("mini_imagenet", root=mini_imagenet_root, size=9)
    assert data.input_shape == (3, 9, 9)


def test_unknown_option() -> None:
    with raises("type", "size", "digits", "seed", kind=TypeError):
        load_dataset("digits", size=3)


def test_mini_imagenet_cannot_be_downloaded(tmp_path: Path) -> None:
    with raises("unsupported", "download"):
        load_dataset("mini_imagenet", root=tmp_path, download=True)
