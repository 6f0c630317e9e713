"""What several processes of one run do: scenes of `scenes.py`, by name; each process writes what it has found."""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

import torch
from scenes import SCENES, found_by

if __name__ == "__main__":
    out, process = Path(sys.argv[1]), os.environ["RANK"]
    for name in sys.argv[2:]:
        try:
            found = found_by(SCENES[name])
        except Exception as error:
            traceback.print_exc()
            found = {"error": f"{type(error).__name__}: {error}"}
        torch.save(found, out / f"{name}-{process}.pt")
