"""A comparison, or what collaborating brings, as one page of HTML that opens without a network."""

from graphcollab.report.page.page import page

__all__ = ["page"]
