"""Checks and measures what there is for a GPU, in under eight minutes on one H100, and says which goals are met.

    PYTHONPATH=. python examples/benchmark/gpu.py --json gpu.json

Sections are right (kernels as in double precision, waits, methods as on the CPU), mixing, training, rounds, size and
peers. Each is a process of its own, which prints what it finds at once, ends early where its share of the minutes is
over, and says what it left out; where one fails, the others go on, and the exit code is 1. At the end every goal has a
line: met, missed or not measured. Without a GPU sizes are tiny, and no goal is measured. Data are random. Nothing needs
to be installed but what graphcollab itself needs.
"""

# ci: --minutes 10 --json $OUT/gpu.json

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from _gpu_bench import Bench, card, tf32  # type: ignore
from _gpu_goals import GOALS  # type: ignore

MODULES = {"rounds": "_gpu_runs", "size": "_gpu_runs", "peers": "_gpu_runs"}  # of others it has the section's name
SECTIONS = {"right": 6, "mixing": 4, "training": 6, "rounds": 3, "size": 2, "peers": 1}  # and parts of the time
GRACE = 0.85  # of its time, after which a section begins nothing more; at the end of it, it is stopped


def play(section: str, device: str, seconds: float, file: Path) -> int:
    """Measure a section in this process; the exit code says whether something failed."""
    bench = Bench(device, GRACE * seconds, file)
    with bench.attempt(section), tf32(False):
        getattr(importlib.import_module(MODULES.get(section, f"_gpu_{section}")), section)(bench)
    bench.write()
    return int(bool(bench.failures))


def launch(section: str, device: str, seconds: float, file: Path) -> str:
    """Measure a section in another process; return how that ended."""
    command = [sys.executable, "-u", __file__, "--device", device, "--part", section, str(seconds), str(file)]
    try:
        code = subprocess.run(command, timeout=seconds, stdin=subprocess.DEVNULL, check=False).returncode
    except subprocess.TimeoutExpired:
        return f"stopped after {seconds:.0f} s"
    return {0: "done", 1: "something failed"}.get(code, f"ended by code {code}")


def measure(sections: list[str], device: str, minutes: float) -> dict[str, Any]:
    """Measure sections one after the other; what one leaves of its time is for the next ones."""
    content: dict[str, Any] = {"sections": {}, "found": {}, "failures": []}
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as folder:
        for n, section in enumerate(sections):
            start, file = time.monotonic(), Path(folder) / section
            seconds = (end - start) * SECTIONS[section] / sum(SECTIONS[later] for later in sections[n:])
            print(f"{section}, {seconds:.0f} s at most", flush=True)
            ended = launch(section, device, seconds, file)
            content["sections"][section] = {"ended": ended, "seconds": round(time.monotonic() - start, 1)}
            print(f"{section}: {ended}, {time.monotonic() - start:.0f} s\n", flush=True)
            part = json.loads(file.read_text()) if file.exists() else {"found": {}, "failures": [section]}
            content["found"] |= part["found"]
            content["failures"] += part["failures"]
    return content


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--only", nargs="+", default=[*SECTIONS], choices=SECTIONS, metavar="SECTION", help="default: all sections")
    add("--device", default="auto", choices=["auto", "cpu", "cuda"], help="auto, the default, is cuda where that is")
    add("--minutes", type=float, default=7.5, help="for all sections together (default: %(default)s)")
    add("--json", type=Path, metavar="FILE", help="also write everything there")
    add("--part", nargs=3, help=argparse.SUPPRESS)  # section, seconds and file: what a section's process is given
    return parser.parse_args()


def main() -> None:
    args = arguments()
    if args.part:
        section, seconds, file = args.part
        sys.exit(play(section, args.device, float(seconds), Path(file)))
    device = args.device if args.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    about = card(device)
    print(json.dumps(about), flush=True)
    content = measure([name for name in SECTIONS if name in args.only], device, args.minutes)
    goals = [(goal.section, goal.text, goal.verdict(content["found"], device == "cuda")) for goal in GOALS]
    for line in [("section", "goal", "measured"), ("---", "---", "---"), *goals]:
        print("| {:8} | {:80} | {:22} |".format(*line))
    for failed in content["failures"]:
        print(f"failed: {failed}")
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"machine": about, "goals": goals, **content}, indent=2, ensure_ascii=False)
        args.json.write_text(text + "\n", encoding="utf-8")
    sys.exit(any(one["ended"] != "done" for one in content["sections"].values()))


if __name__ == "__main__":
    main()
