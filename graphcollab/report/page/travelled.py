"""What a page says of bytes that were sent."""

from __future__ import annotations

from collections.abc import Iterator

from graphcollab.report._text import Cells, byte_size
from graphcollab.report.page.cells import table_of
from graphcollab.report.page.content import Section
from graphcollab.report.page.other_charts import bar_chart
from graphcollab.train import Comparison

__all__ = ["bytes_section"]


def bytes_section(comparison: Comparison) -> Iterator[Section]:
    """Yield a section with a bar for every method, where what was sent is known."""
    sent = {name: row["bytes_per_node"] for name, row in comparison.rows().items()}
    rows = [{"method": name, "value": size, "text": byte_size(size)} for name, size in sent.items() if size == size]
    if not rows:
        return
    told = ", ".join(f"{row['method']} {row['text']}" for row in rows)
    caption = f"What a node sent, mean over nodes and seeds: {told}."
    table = table_of("Sent per node", Cells(["method", "sent"], [[row["method"], row["text"]] for row in rows]))
    yield Section("bytes", "What travelled", charts=[bar_chart(rows, "bytes sent per node", "bytes", caption, table)])
