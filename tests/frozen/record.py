"""Record what tables become: ``python -m tests.frozen.record``.

Only cases that are not there yet are recorded. A change that is meant to change what a table becomes names the cases
to record anew, as in ``python -m tests.frozen.record targets 'cells/units'``; this says what moved, for its message.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.frozen.outcomes import messages_of_site, moved, outcome, predictions, tasks
from tests.frozen.tables import cases, days, patients

RECORDED = Path(__file__).with_name("recorded.json")
TEXTS = ("text", "warning texts")  # of errors and warnings

Play = Callable[[Path], dict[str, Any]]


def plays() -> dict[str, Play]:
    """Return what plays every case, by name."""
    found: dict[str, Play] = {}
    for name, make in cases():
        found[name] = lambda folder, make=make: outcome(make, tasks, folder)
    for name, make in predictions():
        found[f"saved/{name}"] = lambda folder, make=make: outcome(make, dict, folder)
    for name, table in {"classes": patients(), "amounts": days()}.items():
        found[f"told/{name}"] = lambda folder, table=table: outcome(lambda _: table, messages_of_site, folder)
    return found


def recorded() -> dict[str, dict[str, Any]]:
    """Return what was recorded of every case."""
    return json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}


def without_texts(found: dict[str, Any]) -> dict[str, Any]:
    """Return all but the sentences."""
    return {name: value for name, value in found.items() if name not in TEXTS}


def texts(found: dict[str, Any]) -> dict[str, Any]:
    """Return the sentences."""
    return {name: found.get(name) for name in TEXTS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="cases, or groups of cases, to record anew")
    parser.add_argument("--all", action="store_true", help="record all cases anew")
    args = parser.parse_args()
    all_of, before = plays(), recorded()
    if unknown := set(args.names) - {name for case in all_of for name in (case, case.split("/")[0])}:
        parser.error(f"there is no case or group named {', '.join(sorted(unknown))}")
    results, count = {}, 0
    for case, play in all_of.items():
        anew = args.all or case not in before or {case, case.split("/")[0]} & {*args.names}
        if not anew:
            results[case] = before[case]
            continue
        with tempfile.TemporaryDirectory() as folder:
            results[case] = play(Path(folder))
        count += 1
        if words := moved(results[case], before.get(case, results[case]), case):
            print(*words, sep="\n")
    lines = [f"{json.dumps(case)}: {json.dumps(found, ensure_ascii=False)}" for case, found in results.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{count} of {len(all_of)} cases recorded in {RECORDED}")


if __name__ == "__main__":
    main()
