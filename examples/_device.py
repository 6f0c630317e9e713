"""The option of every example that trains: where to compute."""

from __future__ import annotations

import argparse

from graphcollab.train import Compute


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add ``--device``, of which ``auto`` is the GPU, if there is one."""
    told = "auto (the GPU, if there is one), cpu, cuda or cuda:1 (default: cpu)"
    parser.add_argument("--device", type=_device, default="cpu", metavar="DEVICE", help=told)


def _device(word: str) -> str:
    try:
        return str(Compute(word).found_device())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
