from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from graphcollab.data.datasets.mini_imagenet import mini_imagenet
from tests.raising import raises

from .conftest import write_mini_imagenet_folders


def test_pools_all_classes_and_splits_within_each(mini_imagenet_root: Path) -> None:
    data = mini_imagenet(mini_imagenet_root, size=8)
    assert data.class_names == ("n01", "n02", "n03", "n04")
    assert data.input_shape == (3, 8, 8)
    assert data.train.targets.bincount().tolist() == [5, 5, 5, 5]
    assert data.test.targets.bincount().tolist() == [1, 1, 1, 1]


def test_pixels(mini_imagenet_root: Path) -> None:
    """Every image comes once, resized by Pillow, and standardized with the training images' statistics."""
    data = mini_imagenet(mini_imagenet_root, size=8, test_fraction=0.5, seed=2)
    expected = [
        np.asarray(Image.open(file).resize((8, 8), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
        for file in sorted((mini_imagenet_root / "images").iterdir())
    ]
    pixels = torch.tensor(np.stack(expected)).double()
    got = torch.cat([data.train.inputs, data.test.inputs]).double()
    # undo the standardization: pairs of equal images differ by one shift and scale per channel
    order = torch.tensor([int(((pixels - image).flatten(1).std(dim=1)).argmin()) for image in _descale(got, pixels)])
    assert sorted(order.tolist()) == list(range(24))
    std, mean = torch.std_mean(pixels[order[:12]], dim=(0, 2, 3), correction=0)
    assert torch.allclose(got, (pixels[order] - mean[:, None, None]) / std[:, None, None], atol=1e-5)


def _descale(got: torch.Tensor, pixels: torch.Tensor) -> torch.Tensor:
    """Bring standardized images roughly back to pixels, well enough to recognize them."""
    std, mean = torch.std_mean(pixels, dim=(0, 2, 3))
    return got * std[:, None, None] + mean[:, None, None]


def test_the_layouts_agree(mini_imagenet_root: Path, tmp_path: Path) -> None:
    write_mini_imagenet_folders(tmp_path / "folders", mini_imagenet_root)
    tables, folders = mini_imagenet(mini_imagenet_root, size=8), mini_imagenet(tmp_path / "folders", size=8)
    assert torch.equal(tables.train.inputs, folders.train.inputs)
    assert torch.equal(tables.test.inputs, folders.test.inputs)
    assert tables.class_names == folders.class_names


def test_is_found_in_a_sub_folder_of_a_data_root(mini_imagenet_root: Path) -> None:
    assert len(mini_imagenet(mini_imagenet_root.parent, size=8).train.inputs) == 20


def test_images_in_a_folder_per_class_beside_the_tables(mini_imagenet_root: Path) -> None:
    before = mini_imagenet(mini_imagenet_root, size=8)
    for file in list((mini_imagenet_root / "images").iterdir()):
        folder = file.parent / file.name[:3]
        folder.mkdir(exist_ok=True)
        file.rename(folder / file.name)
    assert torch.equal(before.train.inputs, mini_imagenet(mini_imagenet_root, size=8).train.inputs)


def test_the_seed_decides(mini_imagenet_root: Path) -> None:
    first, again, other = (mini_imagenet(mini_imagenet_root, size=8, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first.test.inputs, again.test.inputs)
    assert not torch.equal(first.test.inputs, other.test.inputs)


def test_gray_images_become_rgb(mini_imagenet_root: Path) -> None:
    file = next((mini_imagenet_root / "images").iterdir())
    Image.open(file).convert("L").save(file)
    assert mini_imagenet(mini_imagenet_root, size=8).input_shape == (3, 8, 8)


def test_nothing_there(tmp_path: Path) -> None:
    with raises("missing-file", f"folder {tmp_path}", "train.csv, val.csv and test.csv", kind=FileNotFoundError):
        mini_imagenet(tmp_path)


def test_a_table_is_missing(mini_imagenet_root: Path) -> None:
    (mini_imagenet_root / "val.csv").unlink()
    with raises("missing-file", f"folder {mini_imagenet_root}", "val.csv", kind=FileNotFoundError):
        mini_imagenet(mini_imagenet_root)


def test_a_folder_is_missing(mini_imagenet_root: Path, tmp_path: Path) -> None:
    write_mini_imagenet_folders(tmp_path / "folders", mini_imagenet_root)
    shutil.rmtree(tmp_path / "folders" / "val")
    with raises("missing-file", f"folder {tmp_path / 'folders'}", "val/", kind=FileNotFoundError):
        mini_imagenet(tmp_path / "folders")
    (tmp_path / "folders" / "val").mkdir()
    assert mini_imagenet(tmp_path / "folders", size=8).num_classes == 3


def test_folders_without_images(tmp_path: Path) -> None:
    for split in ("train", "val", "test"):
        (tmp_path / split).mkdir()
    with raises("missing-file", f"folder {tmp_path}", kind=FileNotFoundError):
        mini_imagenet(tmp_path)


def test_an_image_is_missing(mini_imagenet_root: Path) -> None:
    file = mini_imagenet_root / "images" / "n0300000002.jpg"
    file.unlink()
    with raises("missing-file", f"file {file}", "class n03", kind=FileNotFoundError):
        mini_imagenet(mini_imagenet_root)


@pytest.mark.parametrize("content", [b"", b"not an image", None])
def test_a_damaged_image_is_named(mini_imagenet_root: Path, content: bytes | None) -> None:
    file = mini_imagenet_root / "images" / "n0200000001.jpg"
    file.write_bytes(file.read_bytes()[:300] if content is None else content)
    with raises("damaged", f"file {file}"):
        mini_imagenet(mini_imagenet_root)


@pytest.mark.parametrize(
    ("table", "code", "fact"),
    [
        ("image,class\na.jpg,n01\n", "format", "['image', 'class']"),
        ("", "format", "got None"),
        ("filename,label\nn0100000000.jpg\n", "format", "line 2"),
        ("filename,label\nn0100000000.jpg,n01\n", "duplicate", "n0100000000.jpg"),
    ],
)
def test_odd_tables(mini_imagenet_root: Path, table: str, code: str, fact: str) -> None:
    (mini_imagenet_root / "test.csv").write_text(table)
    with raises(code, f"file {mini_imagenet_root / 'test.csv'}", fact):
        mini_imagenet(mini_imagenet_root)


def test_too_few_images(mini_imagenet_root: Path) -> None:
    with raises("too-few", "class 'n01'", "0.01"):
        mini_imagenet(mini_imagenet_root, test_fraction=0.01)


@pytest.mark.parametrize("options", [{"size": 0}, {"test_fraction": 1.0}, {"test_fraction": 0.0}])
def test_odd_options(mini_imagenet_root: Path, options: dict[str, float]) -> None:
    with raises("value", *options):
        mini_imagenet(mini_imagenet_root, **options)  # type: ignore[arg-type]
