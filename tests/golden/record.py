"""Record the results that all methods are held to: ``make golden``.

Only cases that are not there yet are recorded. A change that is meant to change results names those to record anew, as
in ``make golden ARGS="pfedsim 'cobo/one way'"``; this says what moved, and by how much, for its commit message.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from graphcollab._base.files import write_whole
from tests.golden.cases import cases, outcome, tolerance

RECORDED = Path(__file__).with_name("results.safetensors")


def largest_difference(found: Tensor, recorded: Tensor) -> float:
    """Return the largest difference, relative to the larger of 1 and the recorded number; inf where shapes differ."""
    if found.shape != recorded.shape or found.dtype != recorded.dtype or not found.isnan().equal(recorded.isnan()):
        return float("inf")
    one, two = found.double().nan_to_num(), recorded.double().nan_to_num()
    return float(((one - two).abs() / two.abs().clamp(min=1)).max()) if two.numel() else 0.0


def moved(case: str, found: Mapping[str, Tensor], recorded: Mapping[str, Tensor]) -> list[str]:
    """Return in words what lies further from what was recorded of a case than it may."""
    before = {name.removeprefix(f"{case}/"): value for name, value in recorded.items() if name.startswith(f"{case}/")}
    words = [f"{case}: {name} is new" for name in sorted(found.keys() - before.keys())]
    words += [f"{case}: {name} is gone" for name in sorted(before.keys() - found.keys())]
    for name in sorted(found.keys() & before.keys()):
        far, may = largest_difference(found[name], before[name]), tolerance(case, name)
        if far > may:
            words.append(f"{case}: {name} moved by {far:.3g}, and may move by {may:g}")
    return words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="methods, or cases, to record anew")
    parser.add_argument("--all", action="store_true", help="record all cases anew")
    args = parser.parse_args()
    plays = dict(cases())
    if unknown := set(args.names) - {name for case in plays for name in (case, case.split("/")[0])}:
        parser.error(f"there is no method or case named {', '.join(sorted(unknown))}")
    torch.set_num_threads(1)
    recorded = load_file(RECORDED) if RECORDED.exists() else {}
    there = {name.rpartition("/")[0] for name in recorded}
    anew = [case for case in plays if args.all or case not in there or {case, case.split("/")[0]} & {*args.names}]
    results = {name: value for name, value in recorded.items() if name.rpartition("/")[0] in plays.keys() - {*anew}}
    for case in anew:
        found = outcome(plays[case])
        if case in there and (words := moved(case, found, recorded)):
            print(*words, sep="\n")
        results |= {f"{case}/{name}": value for name, value in found.items()}
    write_whole(RECORDED, save(results))
    print(f"{len(anew)} of {len(plays)} cases recorded in {RECORDED}")


if __name__ == "__main__":
    main()
