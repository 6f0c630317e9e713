"""The rules on who may import whom, and the few others that hold for every file, read off the syntax trees."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

ROOT = Path(__file__).parents[1]
PACKAGE = "graphcollab"

# Imports point left (here: up) only. The folders of ROOMS are floors of their own, inside one that stands elsewhere.
TIERS: tuple[str, ...] = (
    "_base",
    "data",
    "engine",
    "nn.functional",
    "nn",
    "comm",
    "analysis.metrics",
    "transforms",
    "components",
    "models",
    "methods",
    "persistence",
    "train",
    "analysis",
    "report",
    "llm",
    "testing",
    "sites",
    "cli",
    "__main__",
)
TIER = {part: tier for tier, part in enumerate(TIERS)}
ROOMS = {part for part in TIERS if "." in part}

# The one file or folder that may import a library, for those that need care.
SOLE_IMPORTER = {
    "itables": "graphcollab/report/page/charts.py",
    "nvflare": "graphcollab/sites/flare/",
    "torch.distributed": "graphcollab/comm/",
    "torchvision": "graphcollab/_base/torchvision.py",
    "triton": "graphcollab/nn/functional/_triton.py",
}

# What may know how rows of other processes get here; all else goes through the operators of a `Plane`.
KNOWS_TRANSPORT = ("graphcollab/comm/", "graphcollab/sites/", "graphcollab/testing/")

# Sums and comparisons over edges, for which pieces have the operators of a `Plane`.
OVER_EDGES = {"mix", "edge_products", "edge_cosines", "edge_distances"}
# Pieces that use them with rows that are here already: why.
HERE_ALREADY = {
    "graphcollab/components/weigh/channel_attention.py": "codes come from a `Halo`; newcomers come after training",
    "graphcollab/components/weigh/double_greedy.py": "one `Halo` is averaged with many weights",
}

# Calls that change the state of a global random number generator.
SEEDING = {
    "numpy.random.seed",
    "numpy.random.set_state",
    "random.seed",
    "random.setstate",
    "torch.cuda.default_generators",
    "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all",
    "torch.cuda.set_rng_state",
    "torch.default_generator",
    "torch.default_generator.manual_seed",
    "torch.default_generator.set_state",
    "torch.manual_seed",
    "torch.random.fork_rng",
    "torch.random.manual_seed",
    "torch.random.seed",
    "torch.random.set_rng_state",
    "torch.seed",
    "torch.set_rng_state",
    "torch_geometric.seed_everything",
}

# The file that seeds global generators for a block, and restores them.
SEEDS = "graphcollab/engine/randomness.py"

LONGEST = 350

FILES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / PACKAGE).rglob("*.py"))
EXAMPLES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").rglob("*.py"))


def module_of(file: str) -> list[str]:
    """The dotted name of a file's module, as a list: ``graphcollab/nn/__init__.py`` is graphcollab.nn."""
    names = file.removesuffix(".py").split("/")
    return names[:-1] if names[-1] == "__init__" else names


def running(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk a syntax tree without the blocks that only type checkers read."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not (isinstance(child, ast.If) and dotted(child.test) == "TYPE_CHECKING"):
            yield from running(child)


@functools.cache
def imports(file: str, tree: ast.AST, types: bool = False) -> list[tuple[int, str]]:
    """The line and absolute dotted name of everything a file imports when it runs (or for types), wherever in it."""
    found = []
    for node in ast.walk(tree) if types else running(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.append((node.lineno, alias.name))
        elif isinstance(node, ast.ImportFrom):
            folder = file.removesuffix(".py").split("/")[: -node.level] if node.level else []
            module = ".".join([*folder, *([node.module] if node.module else [])])
            for alias in node.names:
                found.append((node.lineno, f"{module}.{alias.name}"))
    return found


def dotted(node: ast.AST) -> str | None:
    """The dotted name that an expression spells, or None where it is something else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else None
    return None


@functools.cache
def real_names(tree: ast.AST) -> list[tuple[ast.AST, str]]:
    """The names a file uses with their import names put back: ``np.random.seed`` is numpy.random.seed."""
    found = []
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known.update({alias.asname: alias.name for alias in node.names if alias.asname})
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            known.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    for node in ast.walk(tree):
        name = dotted(node)
        if name:
            first, dot, rest = name.partition(".")
            found.append((node, known.get(first, first) + dot + rest))
    return found


def parts(node: ast.expr) -> list[ast.expr]:
    """The expressions of a tuple, or the one that stands alone."""
    return node.elts if isinstance(node, ast.Tuple) else [node]


def arrows(sources: dict[str, ast.Module]) -> dict[str, set[str]]:
    """The files that each file imports something from, also for types alone."""
    files = {".".join(module_of(file)): file for file in sources}

    def home(name: str) -> str | None:
        while name and name not in files:
            name = name.rpartition(".")[0]
        return files.get(name)

    found = {file: {home(name) for _, name in imports(file, tree, types=True)} for file, tree in sources.items()}
    return {file: {one for one in targets if one not in (None, file)} for file, targets in found.items()}


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one file."""
    files = {file: place for place, file in enumerate(sorted(graph))}
    edges = [(files[file], files[target]) for file, targets in graph.items() for target in targets]
    senders, receivers = zip(*edges, strict=True) if edges else ((), ())
    matrix = coo_matrix((np.ones(len(edges)), (senders, receivers)), shape=(len(files), len(files)))
    count, component = connected_components(matrix, connection="strong")
    found = [[file for file in files if component[files[file]] == number] for number in range(count)]
    return [members for members in found if len(members) > 1]


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def room(module: list[str]) -> str:
    """The part of TIERS that a module belongs to; empty for the package's own face."""
    inner = ".".join(module[1:3])
    return inner if inner in ROOMS else ".".join(module[1:2])


def wrong_direction(file: str, tree: ast.AST) -> list[str]:
    """Imports inside the package that do not point left."""
    module = module_of(file)
    if module == [PACKAGE]:  # the package's own face shows everything
        return []
    part, wrong = room(module), []
    if part not in TIER:
        return [f"{file}: {part!r} has no tier; add it to TIERS"]
    for line, name in imports(file, tree):
        if not within(name, PACKAGE):
            continue
        target = room(name.split("."))
        if target not in TIER:
            wrong.append(f"{file}:{line}: imports {name}; import from the module that defines what is used")
        elif TIER[target] > TIER[part]:
            wrong.append(f"{file}:{line}: {part!r} imports {target!r}, which does not stand left of it")
    return wrong


def wrong_importer(file: str, tree: ast.AST) -> list[str]:
    """Uses of a library by another file than the one that may."""
    used = [*imports(file, tree), *((getattr(node, "lineno", 0), name) for node, name in real_names(tree))]
    return [
        f"{file}:{line}: uses {library}; only {owner} does"
        for library, owner in SOLE_IMPORTER.items()
        if not file.startswith(owner)
        for line in sorted({line for line, name in used if within(name, library)})
    ]


def imports_scripts(file: str, tree: ast.AST) -> list[str]:
    """Imports from folders that are not part of the package."""
    return [
        f"{file}:{line}: imports {name}"
        for line, name in imports(file, tree)
        if within(name, "tests") or within(name, "examples")
    ]


def seeds_globally(file: str, tree: ast.AST) -> list[str]:
    """Uses of a global seed, which all threads share, but for `own_randomness`, which restores what it seeds."""
    if file == SEEDS:
        return []
    return [
        f"{file}:{getattr(node, 'lineno', 0)}: {name} changes a global generator; use a keyed or own one"
        for node, name in real_names(tree)
        if name in SEEDING
    ]


def knows_transport(file: str, tree: ast.AST) -> list[str]:
    """Uses of a transport by what is not to know that there may be several processes."""
    if file.startswith(KNOWS_TRANSPORT):
        return []
    return [
        f"{file}:{node.lineno}: uses a transport; use an operator of `Plane`"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "transport"
    ]


def passes_by_plane(file: str, tree: ast.AST) -> list[str]:
    """Imports, by pieces, of functions that would read rows of nodes that another process may own."""
    if not file.startswith("graphcollab/components/") or file in HERE_ALREADY:
        return []
    return [
        f"{file}:{line}: imports {name}; use an operator of `Plane`, or say in HERE_ALREADY why the rows are here"
        for line, name in imports(file, tree)
        if within(name, f"{PACKAGE}.nn.functional") and name.split(".")[-1] in OVER_EDGES
    ]


@functools.cache
def parse(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"), file)


@pytest.mark.parametrize("rule", [wrong_direction, knows_transport, passes_by_plane], ids=lambda rule: rule.__name__)
def test_package(rule):
    assert [wrong for file in FILES for wrong in rule(file, parse(file))] == []


@pytest.mark.parametrize("rule", [wrong_importer, imports_scripts, seeds_globally], ids=lambda rule: rule.__name__)
def test_package_and_examples(rule):
    assert [wrong for file in [*FILES, *EXAMPLES] for wrong in rule(file, parse(file))] == []


def test_no_circles_of_imports_those_for_types_included():
    assert circles(arrows({file: parse(file) for file in FILES})) == []


def test_circles_themselves():
    for_types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from graphcollab.b import f"
    sources = {"a": for_types, "b": "from .c import g", "c": "from graphcollab import a", "d": "from . import a, b"}
    graph = arrows({f"graphcollab/{name}.py": ast.parse(source) for name, source in sources.items()})
    assert circles(graph) == [[f"graphcollab/{name}.py" for name in "abc"]]


def test_files_are_short():
    lengths = {file: len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert {file: length for file, length in lengths.items() if length > LONGEST} == {}


def test_every_random_stream_has_a_number_of_its_own():
    streams: dict[int, list[str]] = {}
    for file in FILES:
        for node in parse(file).body:
            if isinstance(node, ast.Assign):
                for target, value in zip(parts(node.targets[0]), parts(node.value), strict=False):
                    if (dotted(target) or "").endswith("_STREAM"):
                        streams.setdefault(ast.literal_eval(value), []).append(f"{file}: {dotted(target)}")
    assert len(streams) > 25
    assert {number: names for number, names in streams.items() if len(names) > 1} == {}


def test_what_passes_by_the_plane_is_used():
    used = {
        file for file in HERE_ALREADY for _, name in imports(file, parse(file)) if name.split(".")[-1] in OVER_EDGES
    }
    assert used == {*HERE_ALREADY}


def test_datasets_folder_is_not_importable():
    assert not (ROOT / "datasets" / "__init__.py").exists(), "it would shadow Hugging Face's datasets package"


@pytest.mark.parametrize(
    ("rule", "file", "source", "count"),
    [
        (wrong_direction, "graphcollab/nn/functional/gram.py", "from graphcollab.engine.stack import ParamSpec", 0),
        (wrong_direction, "graphcollab/nn/functional/gram.py", "from ...engine.stack import ParamSpec", 0),
        (
            wrong_direction,
            "graphcollab/nn/functional/gram.py",
            "from . import simplex\nfrom .simplex import project",
            0,
        ),
        (wrong_direction, "graphcollab/nn/functional/gram.py", "def f():\n    from ..nn import MixConv", 1),
        (
            wrong_direction,
            "graphcollab/nn/functional/gram.py",
            "from graphcollab._base import keyed; from graphcollab import nn",
            1,
        ),
        (wrong_direction, "graphcollab/nn/functional/gram.py", "from graphcollab.components.local import fit", 1),
        (wrong_direction, "graphcollab/nn/functional/__init__.py", "from ..nn.mix_conv import MixConv", 1),
        (wrong_direction, "graphcollab/nn/functional/__init__.py", "from .gram import gram", 0),
        (wrong_direction, "graphcollab/nn/weigh/base.py", "from ...method import Method", 1),
        (wrong_direction, "graphcollab/nn/mix.py", "import graphcollab", 1),
        (wrong_direction, "graphcollab/stray.py", "", 1),
        (wrong_direction, "graphcollab/__init__.py", "from .train import run", 0),
        (wrong_importer, "graphcollab/engine/stack.py", "import torch.distributed as dist", 1),
        (wrong_importer, "graphcollab/engine/stack.py", "from torch import distributed", 1),
        (wrong_importer, "graphcollab/engine/stack.py", "import torch\ntorch.distributed.barrier()", 1),
        (wrong_importer, "graphcollab/comm/launch.py", "import torch.distributed as dist", 0),
        (wrong_importer, "graphcollab/data/datasets/images.py", "from torchvision.datasets import MNIST", 1),
        (wrong_importer, "graphcollab/_base/torchvision.py", "import torchvision", 0),
        (wrong_importer, "graphcollab/data/datasets/images.py", "from .._torchvision import torchvision", 0),
        (imports_scripts, "graphcollab/comm/relation.py", "from tests.conftest import data_root", 1),
        (imports_scripts, "graphcollab/comm/relation.py", "import examples.demo", 1),
        (imports_scripts, "graphcollab/comm/relation.py", "from .testing import check", 0),
        (seeds_globally, "graphcollab/comm/relation.py", "import torch\ntorch.manual_seed(0)", 1),
        (seeds_globally, "graphcollab/comm/relation.py", "from torch import manual_seed as seed\nseed(0)", 1),
        (seeds_globally, "graphcollab/comm/relation.py", "import numpy as np\nnp.random.seed(0)", 1),
        (seeds_globally, "graphcollab/comm/relation.py", "import torch\ntorch.Generator().manual_seed(0)", 0),
        (seeds_globally, "graphcollab/engine/stack.py", "import torch\ntorch.manual_seed(0)", 1),
        (seeds_globally, "graphcollab/engine/stack.py", "import torch\nwith torch.random.fork_rng():\n    pass", 1),
        (seeds_globally, "graphcollab/comm/relation.py", "import torch\ntorch.default_generator.manual_seed(0)", 2),
        (seeds_globally, "graphcollab/engine/randomness.py", "import torch\ntorch.default_generator.manual_seed(0)", 0),
        (knows_transport, "graphcollab/components/weigh/peer_weights.py", "env.plane.transport.all_reduce(x)", 1),
        (knows_transport, "graphcollab/testing/scene.py", "plane.transport.all_reduce(x)", 0),
        (knows_transport, "graphcollab/components/weigh/peer_weights.py", "env.plane.all_reduce(x)", 0),
        (
            passes_by_plane,
            "graphcollab/components/weigh/peer_weights.py",
            "from graphcollab.nn.functional import mix, simplex",
            1,
        ),
        (
            passes_by_plane,
            "graphcollab/components/exchange/receive.py",
            "from graphcollab.nn.functional.mix import mix",
            1,
        ),
        (
            passes_by_plane,
            "graphcollab/components/weigh/double_greedy.py",
            "from graphcollab.nn.functional import mix",
            0,
        ),
        (passes_by_plane, "graphcollab/nn/mix.py", "from graphcollab.nn.functional import mix", 0),
        (passes_by_plane, "graphcollab/__init__.py", "from graphcollab.nn.functional import mix", 0),
    ],
)
def test_rules_themselves(rule, file, source, count):
    assert len(rule(file, ast.parse(source))) == count
