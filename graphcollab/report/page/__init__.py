"""A comparison, or what collaborating brings, as one page of HTML that opens without a network."""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.report.page.page import page as page

__all__ = make_lazy(__name__)
