"""What the benchmarks share: timing contenders in turn, memory at its peak, and a description of the machine."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from graphcollab.train import Compute


class Ratio(NamedTuple):
    """Median and quartiles of a ratio."""

    low: float
    median: float
    high: float

    def __str__(self) -> str:
        wide = ", more than a third apart" if self.high - self.low > self.median / 3 else ""
        return f"{self.median:.2f} (half of them {self.low:.2f} to {self.high:.2f}{wide})"


class Timed:
    """Seconds of one contender: the first round, and the median, fastest and slowest of the others."""

    def __init__(self, seconds: list[float]) -> None:
        self.first, self.rest = seconds[0], seconds[1:]

    @property
    def median(self) -> float:
        """Seconds of a round once the first is over."""
        return statistics.median(self.rest)

    def over(self, other: Timed) -> Ratio:
        """Return its seconds over the other's, in the rounds in which both took turns."""
        values = [mine / theirs for mine, theirs in zip(self.rest, other.rest, strict=True)]
        low, median, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
        return Ratio(low, median, high)

    def as_dict(self) -> dict[str, float]:
        """Return milliseconds."""
        values = {"first": self.first, "median": self.median, "min": min(self.rest), "max": max(self.rest)}
        return {f"{name}_ms": round(1e3 * value, 3) for name, value in values.items()}

    def __str__(self) -> str:
        return (
            f"median {1e3 * self.median:9.2f} ms   ({1e3 * min(self.rest):.2f} to {1e3 * max(self.rest):.2f}, "
            f"first round {1e3 * self.first:.2f})"
        )


def interleave(
    contenders: Mapping[str, Callable[[], Any]],
    repeats: int,
    device: str,
    check: Callable[[], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timed]:
    """Time contenders in turn, in either order, so that whatever else the machine does affects all of them equally.

    Args:
        contenders: What to call, by name.
        repeats: Rounds after the first one, which is kept apart.
        device: Waited for before the clock is read.
        check: Called after the first round.
        clock: Seconds now.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for round_ in range(repeats + 1):
        for name, call in list(contenders.items())[:: -1 if round_ % 2 else 1]:
            wait(device)
            start = clock()
            call()
            wait(device)
            seconds[name].append(clock() - start)
        if check and round_ == 0:
            check()
    timed = {name: Timed(values) for name, values in seconds.items()}
    for name, values in timed.items():
        print(f"  {name:24} {values}")
    return timed


def peak_bytes(call: Callable[[], Any], device: str) -> int:
    """Return by how much memory grew at most during a call (on a CPU: resident memory of the process, Linux only)."""
    before = forget_peak(device)
    kept = call()
    del kept
    return peak(device) - before


def forget_peak(device: str) -> int:
    """Measure the peak of memory anew; return the bytes that are taken now."""
    if on_gpu(device):
        wait(device)
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device)
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def peak(device: str) -> int:
    """Return the bytes that were taken at most."""
    wait(device)
    return torch.cuda.max_memory_allocated(device) if on_gpu(device) else status("VmHWM")


def status(field: str) -> int:
    """Return a field of ``/proc/self/status`` in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(field + ":")))


def machine(device: str) -> dict[str, Any]:
    """Describe processor, threads, versions and device."""
    info = Path("/proc/cpuinfo")
    models = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": len(models),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(device) if on_gpu(device) else device,
    }


def arguments(about: str) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark."""
    parser = argparse.ArgumentParser(
        description=about.partition("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add_device(parser)
    parser.add_argument("--repeats", type=int, default=9, help="rounds that are timed after the first")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    return parser


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add ``--device``, of which ``auto`` is the GPU, if there is one; for scripts that measure nothing, too."""
    told = "auto (the GPU, if there is one), cpu, cuda or cuda:1 (default: cpu)"
    parser.add_argument("--device", type=_device, default="cpu", metavar="DEVICE", help=told)


def _device(word: str) -> str:
    try:
        return str(Compute(word).found_device())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def write(results: Mapping[str, Any], args: argparse.Namespace) -> None:
    """Write results and machine as JSON where that was asked for."""
    if args.json:
        args.json.write_text(json.dumps({"machine": machine(args.device), **results}, indent=2) + "\n")


def on_gpu(device: str) -> bool:
    """Tell whether a device is a GPU."""
    return device.startswith("cuda")


def wait(device: str) -> None:
    """Wait for all that a GPU has to do."""
    if on_gpu(device):
        torch.cuda.synchronize(device)
