"""Steps find the memory of the step before: their pages are not made anew."""

from __future__ import annotations

import ctypes
import platform
import sys
from types import SimpleNamespace

import pytest

from graphcollab._base.memory import keep_heap
from tests.forked import interpret

STEPS = """
import resource
import torch
from graphcollab._base.memory import keep_heap

def step():
    activations = [torch.ones(500_000) for _ in range(40)]  # 2 MB each

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
@pytest.mark.slow
def test_pages_are_kept(tmp_path):
    """Ten steps of 80 MB are 195,300 pages of 4 KiB."""
    (tmp_path / "steps.py").write_text(STEPS)
    ran = interpret(tmp_path / "steps.py")
    assert ran.returncode == 0, ran.stderr
    given_back, kept = map(int, ran.stdout.split())
    assert given_back > 3000
    assert kept < 300


SETTINGS = {
    "MALLOC_TRIM_THRESHOLD_": ("131072", 0),
    "MALLOC_MMAP_THRESHOLD_": ("65536", 0),
    "GLIBC_TUNABLES": ("glibc.malloc.trim_threshold=131072:glibc.malloc.arena_max=2", 0),
    "MALLOC_ARENA_MAX": ("2", 2),
}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such settings")
@pytest.mark.parametrize("name", SETTINGS)
def test_thresholds_that_the_user_has_set_stay(name, monkeypatch):
    value, times = SETTINGS[name]
    calls = []
    monkeypatch.setenv(name, value)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(mallopt=lambda *setting: calls.append(setting)))
    keep_heap()
    assert calls == [(-3, 2**25), (-1, 2**28)][:times]


def test_with_another_c_library_nothing_happens(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace())
    keep_heap()
