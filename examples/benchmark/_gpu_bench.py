"""What the sections of gpu.py share: times, what was found, the time that is left, and the machine."""

from __future__ import annotations

import json
import math
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import torch

CACHE_BYTES = 2**27  # more than the second-level cache of a card
SLEEP_CYCLES = 10**6  # in which the CPU queues what is timed: half a millisecond on an H100
SMI = "driver_version,memory.total,clocks.max.sm,clocks.sm,clocks.mem,power.limit"
LIBRARIES = ("torch", "triton", "torch-geometric", "torch-scatter", "numpy", "pfl")


class Timing(NamedTuple):
    """Milliseconds of a call: of the card's work (without a card of all of it), and until the CPU had queued it."""

    ms: float
    host_ms: float


class Bench:
    """Times, prints and keeps what a section measures.

    Args:
        device: ``"cuda"``, or ``"cpu"``, where sizes are tiny.
        seconds: In which the section should end.
        file: Everything found is written there at once.
    """

    def __init__(self, device: str, seconds: float = math.inf, file: Path | None = None) -> None:
        self.device, self.file, self.end = device, file, time.monotonic() + seconds
        self.found: dict[str, dict[str, float]] = {}
        self.failures: list[str] = []
        self.card = device != "cpu"
        self.cache = torch.empty(CACHE_BYTES if self.card else 0, dtype=torch.int8, device=device)

    def size(self, full: Any, tiny: Any) -> Any:
        """Return a size for a card, or without one."""
        return full if self.card else tiny

    def note(self, *key: str, **numbers: float) -> None:
        """Print and keep numbers."""
        shown = "  ".join(f"{name} {value:.4g}" for name, value in numbers.items())
        print(f"  {' | '.join(key):76} {shown}", flush=True)
        self.found[" | ".join(key)] = numbers
        self.write()

    def write(self) -> None:
        """Write what is known so far."""
        if self.file is not None:
            self.file.write_text(json.dumps({"found": self.found, "failures": self.failures}))

    def late(self, left: str) -> bool:
        """Tell whether the time is over, and say what is left out."""
        over = time.monotonic() > self.end
        if over:
            print(f"  left out, as the time is over: {left}", flush=True)
        return over

    @contextmanager
    def attempt(self, what: str, needed: bool = True) -> Iterator[None]:
        """Say in a line what failed and go on; the section fails by it only if it is ``needed``."""
        try:
            yield
        except Exception as error:
            text = (str(error).strip().splitlines() or [""])[0][:200]
            print(f"  {what}: {'failed' if needed else 'left out'} ({type(error).__name__}: {text})", flush=True)
            self.failures += [what] * needed
            self.write()

    def wait(self) -> None:
        """Wait for the card."""
        if self.card:
            torch.cuda.synchronize()

    def times(
        self,
        calls: Mapping[str, Callable[[], Any]],
        of: str,
        needed: tuple[str, ...] = (),
        *,
        repeats: int = 30,
        seconds: float = 0.25,
        whole: bool = False,
    ) -> dict[str, Timing]:
        """Return medians over rounds in which calls take turns, of those that work; slow ones take part in few rounds.

        A call is timed on the card, with its second-level cache emptied before, or with ``whole`` by the clock, from an
        idle card until it is idle again. Without a card there are three rounds at most.
        """
        repeats = self.size(repeats, 3)
        rounds: dict[str, int] = {}
        for name, call in calls.items():
            with self.attempt(f"{of}, {name}", name in needed):
                for _ in range(4 if "graphs" in name else 2):  # kernels are compiled, and graphs recorded
                    once = self._by_clock(call).ms / 1e3
                rounds[name] = max(min(int(seconds / once), repeats), 3 if once < 4 * seconds else 1)
        clock = self._by_clock if whole or not self.card else self._on_card
        seen: dict[str, list[Timing]] = {name: [] for name in rounds}
        for turn in range(max(rounds.values(), default=0)):
            for name in list(rounds)[:: -1 if turn % 2 else 1]:
                if turn < rounds[name]:
                    seen[name].append(clock(calls[name]))
        return {name: Timing(*map(statistics.median, zip(*some, strict=True))) for name, some in seen.items()}

    def _by_clock(self, call: Callable[[], Any]) -> Timing:
        self.wait()
        start = time.perf_counter()
        kept = call()
        queued = time.perf_counter()
        self.wait()
        end = time.perf_counter()
        del kept
        return Timing(1e3 * (end - start), 1e3 * (queued - start))

    def _on_card(self, call: Callable[[], Any]) -> Timing:
        """Time a call between two events; the card sleeps before the first, while the CPU runs ahead."""
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self.cache.zero_()
        torch.cuda._sleep(SLEEP_CYCLES)  # type: ignore[no-untyped-call]
        start.record()
        before = time.perf_counter()
        kept = call()
        queued = time.perf_counter()
        end.record()
        torch.cuda.synchronize()
        del kept
        return Timing(start.elapsed_time(end), 1e3 * (queued - before))


@contextmanager
def tf32(on: bool) -> Iterator[None]:
    """Let products and convolutions in single precision round their factors, or not."""
    places = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [place.allow_tf32 for place in places]
    try:
        for place in places:
            place.allow_tf32 = on
        yield
    finally:
        for place, value in zip(places, before, strict=True):
            place.allow_tf32 = value


def card(device: str) -> dict[str, Any]:
    """Describe card, driver, clocks and versions, as far as they can be found."""
    found: dict[str, Any] = {"device": torch.cuda.get_device_name() if device == "cuda" else "cpu"}
    found |= {"python": platform.python_version(), "cuda": torch.version.cuda}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            found[library] = None
    if device == "cuda" and shutil.which("nvidia-smi"):
        command = ["nvidia-smi", f"--query-gpu={SMI}", "--format=csv,noheader"]
        lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip().splitlines()
        found |= dict(zip(SMI.split(","), lines[0].split(", "), strict=False)) if lines else {}
    return found
