from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from graphcollab import components, methods
from graphcollab.analysis.metrics import METRICS
from graphcollab.components import Piece, slots

ROOT = Path(__file__).parents[2]
README, CONTRIBUTING, DESIGN = ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "design.md"
METHODS = ROOT / "docs" / "methods.md"
CARDS = sorted((ROOT / "datasets").glob("*.md"))  # their code needs downloads
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PAGES = [
    README,
    CONTRIBUTING,
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *TUTORIALS,
]

RUN = "<!-- run -->"  # stands on the line above a block of Python that is to be run
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> Iterator[tuple[int, bool, str]]:
    """Yield the line number, whether it is marked, and the text of every block of a language."""
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        if found[1] == language:
            before = text[: found.start()]
            yield before.count("\n") + 1, before.rstrip("\n").endswith(RUN), found[2]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_runnable(page: Path) -> bool:
    return any(marked for _, marked, _ in blocks(page, "python"))


def run(page: Path, shorter: Mapping[str, str]) -> None:
    """Run a page's marked blocks, one after the other, with something else in place of some of their words."""
    names: dict[str, object] = {"__name__": "__main__"}  # the blocks of a page follow each other
    left = dict(shorter)
    for line, marked, code in blocks(page, "python"):
        for words in [*left] if marked else []:
            if words in code:
                code = code.replace(words, left.pop(words))
        if marked:
            exec(compile("\n" * line + code, str(page), "exec", dont_inherit=True), names)
    assert not left, f"{page_name(page)} does not say {[*left]} any more"


# Lengths of runs, and what is written in place of them in `make test`; `make check` runs these pages as they are.
SHORTER = {
    "README.md": {"rounds=40": "rounds=3"},
    "docs/comparing.md": {'"budget": 150': '"budget": 75'},
    "docs/deploying.md": {"rounds=20": "rounds=2"},
    "docs/finding_peers.md": {"rounds=20": "rounds=4"},
    "docs/getting_started.md": {
        "rounds=20,\n    evaluate_every=10": "rounds=4,\n    evaluate_every=2",
        "rounds=10": "rounds=2",
        "others, model, rounds=5": "others, model, rounds=2",
    },
    "docs/gradient_alignment.md": {
        "rounds=400, evaluate_every=50": "rounds=4, evaluate_every=2",
        "range(50, 401, 50)": "range(2, 5, 2)",
        "rounds=20, evaluate_every=20": "rounds=2, evaluate_every=2",
    },
    "docs/methods.md": {"rounds=20": "rounds=4"},
    "docs/tutorials/mixer_to_new_tasks.md": {
        "seeds=range(5),\n    rounds=10": "seeds=range(1),\n    rounds=1",
        "old, model, rounds=50": "old, model, rounds=1",
        "tasks, model, rounds=10": "tasks, model, rounds=1",
    },
    "docs/tutorials/paper_to_file.md": {
        "seeds=range(5),\n    rounds=40": "seeds=range(1),\n    rounds=31",
        '{"lr": [0.03, 0.1, 0.3], "epochs"': '{"lr": [0.1], "epochs"',
    },
    "docs/your_data.md": {
        "rounds=3)  # quick": "rounds=1)  # quick",
        "hidden=8)\nfound = benefit(tasks, model, repeats=3, rounds=3)": (
            "hidden=8)\nfound = benefit(tasks, model, repeats=3, rounds=1)"
        ),
    },
}


@pytest.mark.parametrize("page", [page for page in PAGES if is_runnable(page)], ids=page_name)
def test_marked_python_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # what the blocks write goes there
    run(page, SHORTER.get(page_name(page), {}))


@pytest.mark.slow
@pytest.mark.parametrize("page", SHORTER)
def test_marked_python_runs_at_its_length(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(ROOT / page, {})


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_all_python_is_marked(page):
    assert [line for line, marked, _ in blocks(page, "python") if not marked] == []


def test_readme_and_pages_on_use_have_python_that_runs():
    start = ROOT / "docs" / "getting_started.md"
    assert all(is_runnable(page) for page in (README, CONTRIBUTING, start, DESIGN))


def test_readme_is_short():
    """What it is, two commands, ten lines, one picture, links: the rest has pages of its own."""
    text = README.read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Two commands", "Ten lines", "Where to go from here"]
    [(_, _, code)] = blocks(README, "python")
    assert len(code.splitlines()) <= 10
    assert text.count("![") == 1


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in [*(ROOT / "docs").glob("*.md"), *TUTORIALS]]
    assert [page for page in pages if f"({page})" not in index] == ["index.md"]


def test_table_of_methods_is_complete():
    table = METHODS.read_text(encoding="utf-8").split("<!-- generated: methods -->")[1].split("<!-- end -->")[0]
    named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(named) == sorted(methods.__all__)


def test_table_of_metrics_is_complete():
    table = (ROOT / "docs" / "comparing.md").read_text(encoding="utf-8").split("| metric | of |")[1].split("\n\n")[0]
    listed = [name for line in table.splitlines()[1:] for name in re.findall(r'`"(\w+)"`', line.split("|")[1])]
    assert sorted(listed) == sorted(METRICS)


@pytest.mark.parametrize("page", [*PAGES, *CARDS], ids=page_name)
def test_links_lead_somewhere(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", target):  # of another site
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_commands_exist(page):
    targets = set(re.findall(r"^(\w+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    demo = (ROOT / "examples" / "train_meta_l2c.py").read_text(encoding="utf-8")
    for line, _, text in blocks(page, "sh"):
        for command in text.splitlines():
            if make := re.search(r"\bmake (\w+)", command):
                assert make[1] in targets, f"{page.name}, block at line {line}: {command}"
            for script in re.findall(r"\S+\.py\b", command):
                assert (ROOT / script).is_file(), f"{page.name}, block at line {line}: {command}"
            if "make demo" in command:
                unknown = [option for option in re.findall(r"--[\w-]+", command) if f'"{option}"' not in demo]
                assert unknown == [], f"{page.name}, block at line {line}: {command}"


def test_design_names_every_folder():
    text = DESIGN.read_text(encoding="utf-8")
    folders = text[text.index("## Folders") : text.index("Imports point left")]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", folders, re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted(p.parent.name for p in (ROOT / "graphcollab").glob("*/__init__.py"))


def test_the_reference_names_every_piece():
    bases = {Piece, *(kind for kind in vars(slots).values() if isinstance(kind, type))}
    named = set(re.findall(r"`([A-Z]\w+)", (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")))
    pieces = {
        name
        for name in components.__all__
        if isinstance(kind := getattr(components, name), type) and issubclass(kind, Piece) and kind not in bases
    }
    assert len(pieces) > 40
    assert pieces <= named
