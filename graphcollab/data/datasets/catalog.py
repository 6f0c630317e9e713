"""Dataset loaders by name."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, overload

from graphcollab._base.errors import MissingError, UnsupportedError
from graphcollab._base.settings import checked, look_up
from graphcollab.data.datasets.labeled_arrays import LabeledArrays
from graphcollab.data.datasets.mini_imagenet import mini_imagenet
from graphcollab.data.datasets.site_table import SiteTable, heart_disease, parkinsons
from graphcollab.data.datasets.vision import cifar10, cifar100, digits, fashion_mnist, mnist, svhn

DATASETS: Mapping[str, Callable[..., LabeledArrays]] = MappingProxyType(
    {load.__name__: load for load in (digits, cifar10, cifar100, fashion_mnist, mnist, svhn, mini_imagenet)}
)
"""Loaders, by name, of datasets to partition over nodes."""

TABLES: Mapping[str, Callable[..., SiteTable]] = MappingProxyType(
    {load.__name__: load for load in (heart_disease, parkinsons)}
)
"""Loaders, by name, of tables whose rows belong to real nodes."""


@overload
def load_dataset(
    name: Literal["heart_disease", "parkinsons"], root: str | os.PathLike[str] | None = ..., **options: Any
) -> SiteTable: ...


@overload
def load_dataset(
    name: str, root: str | os.PathLike[str] | None = ..., download: bool = ..., **options: Any
) -> LabeledArrays: ...


@checked
def load_dataset(
    name: str, root: str | os.PathLike[str] | None = None, download: bool = False, **options: Any
) -> LabeledArrays | SiteTable:
    """Load a dataset by name.

    Args:
        name: A name in :data:`DATASETS` or in :data:`TABLES`.
        root: Folder with the files. Default: the environment variable ``GRAPHCOLLAB_DATA``. Datasets that come with
            an installed package, such as the digits, need no folder.
        download: Fetch missing files, for datasets that torchvision can fetch.
        **options: Further arguments of the loader.

    Raises:
        ValueError: The name is unknown (the message suggests the nearest known one), the dataset needs a root and none
            is given, or it cannot be downloaded.
        TypeError: The loader has no such option.

    Example:
        >>> load_dataset("digits", seed=1)
        LabeledArrays('digits', train=1347, test=450, input_shape=(1, 8, 8), num_classes=10)
        >>> load_dataset("heart_disease").sizes
        {'cleveland': 303, 'hungarian': 294, 'switzerland': 123, 'va': 200}
    """
    known: dict[str, Callable[..., Any]] = {**DATASETS, **TABLES}
    loader = look_up("dataset", name, known)
    accepted = inspect.signature(loader).parameters
    if "root" not in accepted:  # part of an installed package: nothing to find or fetch
        return loader(**options)
    root = root if root is not None else os.environ.get("GRAPHCOLLAB_DATA")
    if not root:
        raise MissingError(
            "root",
            f"dataset {name!r} is read from files: give root=FOLDER or set the environment variable GRAPHCOLLAB_DATA",
        )
    if "download" in accepted:
        return loader(root, download=download, **options)
    if download:
        raise UnsupportedError(
            "download", f"dataset {name!r} cannot be downloaded automatically; datasets/{name}.md says where it is from"
        )
    return loader(root, **options)
