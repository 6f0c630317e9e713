"""Put small faults into the package, one at a time, and see whether the tests that are to catch them do.

``python -m tests.faults`` plays all of faults.json, and ``python -m tests.faults 12 weigh`` those of these numbers or
folders. A copy of the package is changed, never the package itself. A fault is the core of an expression, ``old``, that
occurs once in its file, and what takes its place, ``new``; where the file is gone, it is looked for in all others. Its
``tests`` failed when it was chosen, and ``caught`` says whether any did. It takes minutes, and ``make test`` does not.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

ROOT, FAULTS = Path(__file__).parents[2], Path(__file__).with_name("faults.json")
COPIED = ("graphcollab", "tests", "docs", "examples", "datasets", "pyproject.toml", "README.md")
CAUGHT, MISSED, LOST, BROKEN = "caught", "NOT caught", "`old` not found", "tests not found"

Fault: TypeAlias = dict[str, Any]


def main() -> int:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("which", nargs="*", help="numbers of faults, or folders of the package; default: all")
    which = parser.parse_args().which
    faults: list[Fault] = json.loads(FAULTS.read_text(encoding="utf-8"))
    chosen = [one for one in faults if not which or {str(one["id"]), one["file"].split("/")[0]} & {*which}]
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        copy_to(Path(folder))
        for fault in chosen:
            said = play(fault, Path(folder))
            found[said] += 1
            wanted = CAUGHT if fault["caught"] else MISSED
            note = "" if said == wanted else f" (was: {wanted})"
            print(f"{fault['id']:3} {fault['file']}: {fault['what']}: {said}{note}", flush=True)
    print(", ".join(f"{count} {said}" for said, count in found.most_common()))
    return int(any(found[said] for said in (LOST, BROKEN)) or found[MISSED] > sum(not one["caught"] for one in chosen))


def copy_to(folder: Path) -> None:
    """Copy the package and what its tests read."""
    leave = shutil.ignore_patterns("__pycache__", ".*_cache", "*.egg-info")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=leave)
        else:
            shutil.copy(ROOT / name, folder / name)


def play(fault: Fault, folder: Path) -> str:
    """Return whether a fault's tests catch it."""
    path = place(fault, folder / "graphcollab")
    if path is None:
        return LOST
    with planted(fault, path):
        code = run_tests(fault["tests"], folder).returncode
    return {0: MISSED, 1: CAUGHT, 2: CAUGHT}.get(code, BROKEN)  # 2: a test cannot even be imported


def place(fault: Fault, package: Path) -> Path | None:
    """Return the file that has the fault's text once: the one that is named, or else the only one of the package."""
    named = package / fault["file"]
    if named.is_file() and named.read_text(encoding="utf-8").count(fault["old"]) == 1:
        return named
    others = [path for path in package.rglob("*.py") if fault["old"] in path.read_text(encoding="utf-8")]
    once = len(others) == 1 and others[0].read_text(encoding="utf-8").count(fault["old"]) == 1
    return others[0] if once else None


@contextmanager
def planted(fault: Fault, path: Path) -> Iterator[None]:
    """Put a fault into a file, and take it out again."""
    sound = path.read_text(encoding="utf-8")
    path.write_text(sound.replace(fault["old"], fault["new"]), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(sound, encoding="utf-8")


def run_tests(tests: list[str], folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run some tests of the copy."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(options or ["-x"]), *tests]
    settings = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, env={**os.environ, **settings}, capture_output=True, text=True)


if __name__ == "__main__":
    sys.exit(main())
