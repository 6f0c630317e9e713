"""What a page says of who listens to whom: the section, in words, as charts, and as tables of the weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphcollab.naming import few
from graphcollab.report._text import Cells, number
from graphcollab.report.page.cells import table_of
from graphcollab.report.page.content import Chart, Section, Table
from graphcollab.report.page.graph import Listening, listening, listens
from graphcollab.report.page.graph_chart import first_shown, graph_chart
from graphcollab.train import Result

__all__ = ["graph_section"]

TOLD = 12  # nodes up to which the words name every group's
CLEAR = 0.3  # modularity from which on groups are clear (Newman and Girvan, 2004)
ONE = "One round was recorded; with callbacks=[RecordGraph()] a run keeps all, and a slider moves here."
SAID = (
    "A line goes from a node that is listened to (sender) to the one that listens (receiver, at the arrow's head); the "
    "thicker, the larger the weight. Colours are groups whose nodes listen to each other more than to others, in the "
    "last round drawn."
)
HANDLED = "Type a name to see whom that node listens to, and who listens to it."


def graph_section(last: Mapping[str, Result]) -> Iterator[Section]:
    """Yield a section with a chart of every method whose nodes listen to others, if there is any."""
    some = {name: result for name, result in last.items() if listens(result)}
    found = {name: one for name, result in some.items() if (one := listening(result, len(some))) is not None}
    if not found:
        return
    charts: list[Chart] = []
    for name, one in found.items():
        charts.append(graph_chart(one, f"graph-{len(charts)}", _caption(name, one), _table(name, one)))
    yield Section("graph", "Who listens to whom", [SAID], charts, handled=HANDLED)


def _caption(name: str, one: Listening) -> str:
    """Say what is drawn, and whether groups are clear."""
    when = f"rounds {one.rounds[0]} to {one.rounds[-1]}" if len(one.rounds) > 1 else f"round {one.rounds[0]}"
    drawn = " drawn" * bool(one.left_out)
    most = f"The largest weight{drawn} is {number(max(line.weight for line in one.lines), None)}."
    least = first_shown(one)
    at_first = [f"At first weights from {number(least, None)} on are drawn."] * (least > 0)
    alone = [ONE] * (len(one.rounds) == 1)
    return " ".join([f"{name}: who listens to whom, {when}.", most, _of_groups(one), *at_first, *one.left_out, *alone])


def _of_groups(one: Listening) -> str:
    """Say how many groups there are, and how far apart they are."""
    many = len(one.groups.sizes)
    if many == 1:
        return "Nodes form no groups."
    inside = {g: [name for name, of in zip(one.names, one.groups.of, strict=True) if of == g] for g in range(many)}
    if len(one.names) <= TOLD:
        which = "; ".join(f"group {g + 1}: {few(names)}" for g, names in inside.items())
    else:
        which = f"{many} groups, of {few([str(size) for size in one.groups.sizes])} nodes; the table says whose"
    clear = round(one.groups.modularity, 2) >= CLEAR
    how = "clearly apart" if clear else "not clearly apart, so do not read much into them"
    return f"{which[0].upper()}{which[1:]}. They are {how} (modularity {number(one.groups.modularity, 2)})."


def _table(name: str, one: Listening) -> Table:
    """Return the weights of the last round, a row for every receiver."""
    heard: dict[int, list[str]] = {k: [] for k in range(len(one.names))}
    listeners = dict.fromkeys(heard, 0)
    for line in sorted(one.last, key=lambda line: -line.weight):
        heard[line.receiver].append(f"{one.names[line.sender]} {number(line.weight, None)}")
        listeners[line.sender] += 1
    rows = [
        [node, f"group {one.groups.of[k] + 1}", str(listeners[k]), ", ".join(heard[k]) or "nobody"]
        for k, node in enumerate(one.names)
    ]
    cells = Cells(["node", "group", "listeners", "listens to"], rows)
    return table_of(f"{name}: weights in round {one.rounds[-1]}, of the lines that are drawn", cells, searched=True)
