"""Steps find the memory of the step before: their pages are not made anew."""

from __future__ import annotations

import platform

import pytest

from tests.forked import interpret

STEPS = """
import resource
import torch
from graphcollab.engine.heap import keep_heap

def step():
    activations = [torch.ones(500_000) for _ in range(6)]  # 2 MB each

def faults():
    step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

given_back = faults()
keep_heap()
print(given_back, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep what they like")
def test_pages_are_kept(tmp_path):
    """Ten steps of 12 MB are 29,300 pages of 4 KiB."""
    (tmp_path / "steps.py").write_text(STEPS)
    ran = interpret(tmp_path / "steps.py")
    assert ran.returncode == 0, ran.stderr
    given_back, kept = map(int, ran.stdout.split())
    assert given_back > 3000
    assert kept < 300
