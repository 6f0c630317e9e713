"""What the package says of itself in pages, from declarations and docstrings; docs/generate.py writes it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import torch

import graphcollab
from graphcollab import Method, Phases, methods
from graphcollab._base import errors
from graphcollab._base.piece import Reader
from graphcollab.components import Field, Piece, slots
from graphcollab.components.state import LOOP
from graphcollab.sites.site import MANY_RUNS, ONE_RUN
from graphcollab.testing import Scene
from graphcollab.testing.scene import SIZES

ROOT = Path(__file__).parents[1]
SLOTS = {
    "local": slots.Local,
    "weigh": slots.Weigher,
    "exchange": slots.Exchanger,
    "rewire": slots.Rewiring,
    "judge": slots.Judge,
    "stop": slots.Stop,
}


def texts() -> Iterator[tuple[Path, str]]:
    """Yield every page with generated text, and what it must be."""
    yield ROOT / "docs" / "reference.md", reference()
    page = ROOT / "docs" / "methods.md"
    yield page, between(page.read_text(encoding="utf-8"), "methods", table_of_methods())
    page = ROOT / "docs" / "deploying.md"
    text = between(page.read_text(encoding="utf-8"), "between sites", table_of_sites())
    yield page, between(text, "settings between sites", table_of_settings())
    page = ROOT / "docs" / "threat_model.md"
    yield page, between(page.read_text(encoding="utf-8"), "readers", table_of_readers())


def between(page: str, name: str, text: str) -> str:
    """Return a page with another text between the marks of that name."""
    start, end = f"<!-- generated: {name} -->\n", "<!-- end -->"
    head, mark, rest = page.partition(start)
    if not mark or end not in rest:
        raise ValueError(f"expected the marks {start.strip()} and {end} in the page, found none: add them")
    return head + start + text + end + rest.partition(end)[2]


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def table_of_methods() -> str:
    """Return the table of all methods: what its function's docstring begins with, and its paper."""
    rows = []
    for name in methods.__all__:
        function = methods.get_method(name)
        title, _, line = summary(function).partition(": ")
        named = line and len(title.split()) <= 3  # begins with the method's name
        rows.append((f"`{name}`", capital(line) if named else summary(function), paper(function)))
    return table(("method", "in one line", "paper"), rows)


def table_of_readers() -> str:
    """Return the table of what leaves a site with each method, by who reads it, and of what all may know then."""
    readers = get_args(Reader)
    rows = []
    for name in methods.__all__:
        walked = [*methods.get_method(name)().walk()]
        told = {one: dict.fromkeys(piece.told[one] for piece in walked if one in piece.told) for one in readers}
        kept = dict.fromkeys(field.name for piece in walked for field in piece.keeps if field.known_to == "public")
        cells = ["; ".join(told[one]) or "–" for one in readers]
        rows.append((f"`{name}`", *cells, ", ".join(f"`{one}`" for one in kept) or "–"))
    head = ("to sites that may hear it", "to the coordinator, to be added up", "to everybody", "fields all know")
    return table(("method", *head), rows)


def table_of_sites() -> str:
    """Return the table of which methods sites can play, by who lets whom listen: they are begun, to see."""
    sites = 4
    every = torch.cartesian_prod(torch.arange(sites), torch.arange(sites)).T
    every = every[:, every[0] != every[1]]
    rows = []
    for name in methods.__all__:
        method = methods.get_method(name)()
        scene = Scene.small(sizes=SIZES[:sites], embeds=method.embeds)
        scene = scene.replace(tasks=replace(scene.tasks, cluster=None))
        why = [refusal(scene.replace(edge_index=edges), method) for edges in (None, every[:, every[0] != 0])]
        apart = why[0] or ("averages are told to all" if method.beyond_edges else "")
        rows.append((f"`{name}`", *(f"refused: {one}" if one else "works" for one in (*why, apart))))
    return table(("method", "all hear all", "one site has no listeners", "groups that hear no others"), rows)


def refusal(scene: Scene, method: Method | Phases) -> str:
    """Return the first words of the error by which a method cannot be begun; nothing if it can."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scene.begin(method)
    except ValueError as error:
        return re.sub(r"node \d+ and node \d+", "all", re.split(r", | \(|: ", str(error))[0])
    return ""


def table_of_settings() -> str:
    """Return the table of settings that are refused between sites."""
    rows = []
    for name in dict.fromkeys([*ONE_RUN, *MANY_RUNS]):
        verbs = ["`run`"] * (name in ONE_RUN) + ["`compare`", "`benefit`"] * (name in MANY_RUNS)
        rows.append((f"`{name}`", ", ".join(verbs), {**ONE_RUN, **MANY_RUNS}[name]))
    return table(("setting", "refused by", "why"), rows)


def summary(of: Callable[..., object] | type) -> str:
    """Return the first line of a docstring, without its full stop."""
    return (inspect.getdoc(of) or "").partition("\n")[0].removesuffix(".")


def does(kind: type[Piece]) -> str:
    """Return what a piece does, of a slot's base what the slot is for."""
    base, _, what = summary(kind).partition(": ")
    return capital(what) if base.startswith("Base of") else summary(kind)


def capital(text: str) -> str:
    """Return a text that begins with a capital letter."""
    return text[:1].upper() + text[1:]


def paper(function: Callable[..., object]) -> str:
    """Return a link to the first paper that a docstring names."""
    text = re.sub(r"\s+", " ", inspect.getdoc(function) or "")
    found = re.search(r"`([^`<]+?)(?: \(([^()]*?)\))? <(https?://[^>]+)>`_(?: \(([^()]*)\))?", text)
    if found:
        authors = found[2] or found[4] or ""
        return f"[{found[1]}]({found[3]})" + (f" ({authors})" if authors else "")
    quoted = re.search(r"\*([A-Z][^*]+)\* \(([^()]*)\)", text) or re.search(r"`([A-Z][^`(]+) \(([^()]*)\)`", text)
    return f"{quoted[1]} ({quoted[2]})" if quoted else "–"


def pieces() -> list[type[Piece]]:
    """Return all pieces of the package, by name."""
    for module in pkgutil.walk_packages(graphcollab.__path__, "graphcollab."):
        if not any(name in module.name for name in ("torchvision", "triton", "__main__")):
            importlib.import_module(module.name)
    found, todo = set(), [Piece]
    while todo:
        kind = todo.pop()
        todo += kind.__subclasses__()
        if kind.__module__.startswith("graphcollab.") and not kind.__name__.startswith("_"):
            found.add(kind)
    return sorted(found, key=lambda kind: kind.__name__)


def users() -> dict[type[Piece], list[str]]:
    """Return which methods use a piece with their default settings."""
    found: dict[type[Piece], list[str]] = {}
    for name in methods.__all__:
        for kind in {type(one) for one in methods.get_method(name)().walk()}:
            found.setdefault(kind, []).append(f"`{name}`")
    return found


def reference() -> str:
    """Return the page of slots, pieces, state, messages, who knows what, and errors."""
    of = users()
    known = [one for one in pieces() if one in of or one not in (Piece, *SLOTS.values())]
    sections = [
        "# Reference: pieces, state, messages and errors\n\nThis page is generated: `make generate` writes it.\n"
    ]
    for slot, base in [*SLOTS.items(), ("inside other pieces", None)]:
        kinds = [one for one in known if (issubclass(one, base) if base else not issubclass(one, (*SLOTS.values(),)))]
        about = f"{does(base).partition('. ')[0]}.\n\n" if base else ""
        rows = [(f"`{one.__name__}`", does(one), ", ".join(of.get(one, ["–"]))) for one in kinds]
        if rows:
            title = f"Slot `{slot}`" if base else "Pieces inside other pieces"
            sections.append(f"## {title}\n\n{about}" + table(("piece", "what it does", "methods"), rows))
    sections.append("## State\n\n" + state(known))
    sends = [(f"`{one.__name__}`", one.travels, ", ".join(of.get(one, ["–"]))) for one in known if one.travels]
    about = "What leaves a node, by the piece that causes it. Pieces that are not listed send nothing.\n\n"
    sections.append("## Messages\n\n" + about + table(("piece", "what travels", "methods"), sends))
    return "\n".join([*sections, "## Errors\n\n" + table_of_errors()])


def table_of_errors() -> str:
    """Return the table of the package's errors, the built-in errors that they also are, and their codes."""
    kinds = [kind for name, kind in vars(errors).items() if name.endswith("Error")]
    rows = [
        (
            f"`{kind.__name__}`",
            f"`{kind.code}`",
            ", ".join(f"`{one.__name__}`" for one in kind.__bases__[1:]),
            summary(kind),
        )
        for kind in kinds
        if kind is not errors.GraphcollabError
    ]
    about = (
        "Every error of the package is a `GraphcollabError`, and the built-in error that fits. Its `code` is that of "
        "its class; its `subject` is the argument or the element that it is about, such as `rounds` "
        "or `node 'b'`. A warning, a `GraphcollabWarning`, has a `code` and a `subject`, too: the code of an error, "
        "`no-effect` for a setting that has none, or `quality` for doubts about data and results.\n\n"
    )
    return about + table(("class", "code", "also a", "when"), rows)


def state(known: Iterable[type[Piece]]) -> str:
    """Return the table of fields: who keeps them, what they mean, how long they live and who may know them."""
    keepers: dict[Field, list[str]] = {field: ["the loop"] for field in LOOP}
    for kind in known:
        for field in vars(kind).get("keeps", ()):
            keepers.setdefault(field, []).append(f"`{kind.__name__}`")
    rows = [
        (f"`{one.name}`", ", ".join(keepers[one]), one.kind, one.lifetime, one.known_to, one.meaning)
        for one in sorted(keepers, key=lambda one: (keepers[one] != ["the loop"], one.name))
    ]
    about = (
        "What the `Data` holds. A field is forgotten when the round, the phase or the run ends. It may be known to all "
        "(`public`), to a node alone (`owner`), or to the receiver or both ends of an edge; or every process has "
        "counted what it knows of, and the value is the sum (`parts`).\n\n"
    )
    return about + table(("field", "kept by", "kind", "lives for a", "known to", "meaning"), rows)
