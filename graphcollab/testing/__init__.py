"""Contract checks for methods, including those of extensions."""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.testing.claims import differences as differences
    from graphcollab.testing.contract import CONTRACT as CONTRACT, check_contract as check_contract
    from graphcollab.testing.scene import Scene as Scene

__all__ = make_lazy(__name__)
