"""Bars, on a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import termios
import threading

import pytest

from graphcollab.cli.app import call


@pytest.fixture
def terminal(monkeypatch):
    """Make standard error a terminal of so many rows and columns; return a function that says what it showed."""
    ends = []

    def open_one(rows, columns):
        own, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        shown, file = bytearray(), os.fdopen(other, "w", encoding="utf-8")
        monkeypatch.setattr(sys, "stderr", file)

        def read():
            try:
                while some := os.read(own, 4096):
                    shown.extend(some)
            except OSError:  # the other end is closed
                pass

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        ends.append(own)

        def told():
            file.close()
            reader.join(10)
            return shown.decode()

        return told

    yield open_one
    for own in ends:
        os.close(own)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_comparison_shows_how_far_it_is(terminal, monkeypatch, tmp_path, jobs):
    monkeypatch.chdir(tmp_path)
    told = terminal(30, 120)
    line = ["compare", "heart_disease", "--methods", "local", "fedavg", "--seeds", "2", "--rounds", "3"]
    call([*line, "--hidden", "8", "--lrs", "none", "--n-jobs", str(jobs)])
    shown = told()
    assert "4/4" in shown
    assert "trial" in shown
    assert ("3/3" in shown or "/3 [" in shown) == (jobs == 1)  # rounds, in this process


def test_quiet_shows_none(terminal):
    told = terminal(30, 120)
    line = ["compare", "heart_disease", "--methods", "local", "--seeds", "1", "--rounds", "1", "--quiet"]
    call(line)
    assert told() == ""
