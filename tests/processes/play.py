"""What each process of a launch does: it plays scenes, by name, and writes what it has found of each."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from tests.processes.scenes import SCENES, found_by

if __name__ == "__main__":
    out, names = Path(sys.argv[1]), sys.argv[2:]
    for number, name in enumerate(names):
        try:
            found = found_by(SCENES[name])
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        torch.save(found, out / f"{number}-{os.environ['RANK']}.pt")
