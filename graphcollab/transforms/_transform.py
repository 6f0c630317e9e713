"""What all transforms of this package share: settings that are checked, and a ``__repr__`` with them."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric.transforms import BaseTransform

from graphcollab.settings import checked

__all__ = ["Transform"]


class Transform(BaseTransform):
    """Base class: attributes are settings, checked by the annotations of ``__init__``, and ``__repr__`` prints them.

    Raises:
        SettingError: If a setting is not what its annotation says.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = checked(cls.__init__)  # type: ignore[method-assign]

    def __repr__(self) -> str:
        settings = [
            f"{name}={list(value.shape) if isinstance(value, Tensor) else value}"
            for name, value in vars(self).items()
            if value is not None
        ]
        return f"{type(self).__name__}({', '.join(settings)})"
