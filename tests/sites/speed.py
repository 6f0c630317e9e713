"""Seconds per round of four hospitals that meet over lines of 10 and 100 Mbit/s: ``python -m tests.sites.speed``.

It sets up a real deployment on this machine (`deployment`: a server and four sites with mutual TLS, each a user of its
own, which needs root) and lets every site reach the server over a line of its own whose rate and delay are held back
(`line`). All methods are played in one job, for every rate.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphcollab.report.values import text_table
from graphcollab.sites import job
from tests.sites.deployment import Deployment, deployment, wait_for
from tests.sites.hospitals import SITES, scripts, write_files

METHODS = ("fedavg", "ditto", "l2c", "meta_l2c", "cobo", "dac")

BODY = """
import json, time
import torch

class Watch(graphcollab.train.Callback):
    def before_mixing(self, data, env):
        self.connection = env.plane.transport.connection

    def on_round(self, data, history):
        own = sum(size for _, size in self.connection.delivery.sent.values())
        seen.append((time.time(), own, self.connection.exchanges))

def model(tasks):
    sizes = *tasks.input_shape, {hidden}, {hidden}, 2
    layers = [torch.nn.Linear(*sizes[k : k + 2]) for k in range(3)]
    return torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])

found = {{}}
for mbit in {rates}:
    for name in {methods}:
        (private / "go").write_text(f"{{mbit}}")
        while not (private / f"set-{{mbit}}").exists():
            time.sleep(0.1)
        seen = []
        settings = {{"rounds": {rounds}, "evaluate_every": {rounds}, "callbacks": [Watch()]}}
        result = hospital.run(getattr(graphcollab.methods, name)(), model, **settings)
        found[f"{{mbit}} {{name}}"] = seen
found["parameters"] = sum(one.numel() for one in result.model(hospital.name).parameters())
(private / "found.json").write_text(json.dumps(found))
"""


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--methods", nargs="+", default=list(METHODS), help="default: %(default)s")
    add("--mbit", type=float, nargs="+", default=[10.0, 100.0], help="rates of a line (default: %(default)s)")
    add("--delay", type=float, default=10.0, help="ms that one way takes (default: %(default)s)")
    add("--rounds", type=int, default=12, help="of which the first is not timed (default: %(default)s)")
    add("--hidden", type=int, default=300, help="units of the two hidden layers (default: %(default)s)")
    add("--json", type=Path, help="file for the figures")
    return parser.parse_args(argv)


def measured(args: argparse.Namespace) -> dict[str, Any]:
    """Play all runs, and return what every site has seen at the end of its rounds."""
    told = {"rates": args.mbit, "methods": args.methods, "rounds": args.rounds, "hidden": args.hidden}
    with tempfile.TemporaryDirectory() as folder:
        own, written = scripts(BODY.format(**told)), write_files(Path(folder))
        files = {name: {"own.csv": written[name], "own.py": own[name]} for name in SITES}
        environment = {"GRAPHCOLLAB_SITE": "{private}/own.py"}
        with deployment(SITES, line=True, files=files, environment=environment) as deployed:
            number = deployed.submit(job(Path(folder) / "job"))
            private = [site.private for site in deployed.sites.values()]
            for mbit in args.mbit:
                wait_for(lambda: at(mbit, private) or ended(deployed, number), 600, f"sites come to {mbit} Mbit/s", 0.5)  # noqa: B023
                deployed.throttle(mbit, args.delay)
                for path in private:
                    (path / f"set-{mbit}").touch()
            status = deployed.wait(number, 1200)
            results = [path / "found.json" for path in private]
            if not all(path.exists() for path in results):
                outputs = "\n".join(site.output.read_text()[-2000:] for site in deployed.sites.values())
                raise RuntimeError(f"the job is {status}\n{outputs}")
            return {name: json.loads(path.read_text()) for name, path in zip(deployed.sites, results, strict=True)}


def at(mbit: float, folders: Sequence[Path]) -> bool:
    """Whether all sites wait for lines of this rate."""
    return all((path / "go").exists() and (path / "go").read_text() == f"{mbit}" for path in folders)


def ended(deployed: Deployment, number: str) -> bool:
    """Whether the job has come to its end."""
    return deployed.status(number).startswith("FINISHED")


def table(args: argparse.Namespace, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row for every rate and method."""
    rows = []
    for mbit in args.mbit:
        for name in args.methods:
            seen = [one[f"{mbit} {name}"] for one in found.values()]
            ends = [max(site[n][0] for site in seen) for n in range(args.rounds)]
            seconds = [after - before for before, after in itertools.pairwise(ends)]
            sent = max((site[-1][1] - site[0][1]) / (args.rounds - 1) for site in seen)
            exchanges = (seen[0][-1][2] - seen[0][0][2]) / (args.rounds - 1)
            rows.append(
                {"mbit": mbit, "method": name, "median": statistics.median(seconds), "least": min(seconds)}
                | {"most": max(seconds), "sent": sent, "exchanges": exchanges}
            )
    return rows


def main(argv: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Measure, print a table, and return its rows."""
    args = arguments(argv)
    found = measured(args)
    rows = table(args, found)
    parameters = next(iter(found.values()))["parameters"]
    print(f"{len(SITES)} sites, {parameters:,} parameters, {args.delay:g} ms one way, {args.rounds - 1} rounds")
    head = ["Mbit/s", "method", "seconds per round", "least", "most", "MB sent by a site", "exchanges"]
    text = [
        [f"{one['mbit']:g}", one["method"]]
        + [f"{one[name]:.2f}" for name in ("median", "least", "most")]
        + [f"{one['sent'] / 1e6:.2f}", f"{one['exchanges']:.1f}"]
        for one in rows
    ]
    print(text_table(head, text))
    if args.json:
        args.json.write_text(json.dumps({"parameters": parameters, "rows": rows}, indent=2))
    return rows


if __name__ == "__main__":
    main()
