"""Errors are one sentence and a number: 2 for wrong usage or input, 1 for failed runs, 130 for an interruption."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from graphcollab._base.errors import DivergedError, RangeError
from graphcollab.cli import comparing


def one_line(done, code, *words):
    assert done.exit_code == code, done.output
    assert done.stdout == ""
    said = [line for line in done.stderr.splitlines() if line and not line.startswith("warning: ")]
    assert len(said) == 1, said
    assert said[0].startswith("graphcollab")
    for word in words:
        assert word in said[0]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--methods", "fedavgg"], ["--methods", '"fedavg"']),
        (["--methods", "local", "local"], ["methods: ", "'local'"]),
        ([], ["--methods"]),
        (["--methods", "local", "--rounds", "0"], ["rounds", "got 0"]),
        (["--methods", "local", "--rounds", "many"], ["--rounds", '"many"']),
        (["--methods", "local", "--node", "age"], ["--node"]),
        (["--methods", "local", "--roundz", "3"], ["--roundz", "--rounds"]),
        (["--methods", "local", "--pooled", "sum"], ["--pooled", '"sums"']),
        (["--methods", "local", "--lrs", "0.1", "-1"], ["-1"]),
        (["--methods", "local", "--device", "gpu9"], ["device", "gpu9"]),
        (["--methods", "cobo", "--set", "cobo.rh=1"], ["'rh'", "'rho'"]),
        (["--methods", "cobo", "--set", "cobo.rho=-1"], ["rho", "-1"]),
        (["--methods", "cobo", "--set", "l2c.own=x"], ["set: 'l2c'", "cobo"]),
        (["--methods", "cobo", "--set", "cobo"], ["set: "]),
        (["--methods", "local", "--group", "diseas"], ["group", "'diseas'", "'disease'"]),
        (["--methods", "local", "--columns", "age,agee"], ["columns", "'agee'", "'age'"]),
        (["--methods", "local", "--metric", "acuracy"], ["--metric", "'accuracy'"]),
        (["--methods", "local", "--on-nonfinite", "halt"], ["--on-nonfinite", '"isolate"']),
    ],
)
def test_wrong_usage(run_command, patients, about, tmp_path, more, words):
    one_line(run_command("compare", patients, *about, *more, "--out", "report"), 2, *words)
    assert not (tmp_path / "report").exists()


def test_a_target_that_is_no_column(run_command, patients):
    line = ["compare", patients, "--node", "hospital", "--target=diseas", "--methods", "local"]
    one_line(run_command(*line), 2, "target", "'diseas'", "'disease'")


def test_a_target_that_is_the_same_everywhere(run_command, patients, about, tmp_path):
    patients.write_text(patients.read_text().replace("well", "ill"))
    one_line(run_command("compare", patients, *about, "--methods", "local", "--out", "report"), 2, "'disease'", "'ill'")
    assert not (tmp_path / "report").exists()


def test_models_are_saved_in_a_folder(run_command, patients, about):
    one_line(run_command("compare", patients, *about, "--methods", "local", "--save"), 2, "out: ")


def test_files_that_are_not_there(run_command, patients, about):
    one_line(run_command("compare", "patient.csv", *about, "--methods", "local"), 2, "data: ", "'patients.csv'")
    one_line(run_command("compare", ".", *about, "--methods", "local"), 2, "data: ")
    one_line(run_command("compare", "digits", *about, "--methods", "local"), 2, "target: ")
    one_line(run_command("compare", "digits", "--methods", "local", "--sites", "7"), 2, "sites: ", "10", "14")
    one_line(run_command("compare", *about, "--methods", "local"), 2, "--data")
    one_line(run_command("predict", "nothing", patients), 2, "nothing")
    one_line(run_command("show", "l2k"), 2, "'l2c'")
    one_line(run_command("compar"), 2, "compar")


def test_a_folder_with_something_else(run_command, patients, about, tmp_path):
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "thesis.tex").write_text("")
    one_line(run_command("compare", patients, *about, "--methods", "local", "--out", "report"), 2, "thesis.tex")
    assert [one.name for one in (tmp_path / "report").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("lrz = [0.1]", ["[lrz]", "run.toml"]),
        ("rounds = 0", ["rounds", "got 0"]),
        ("rounds = ", ["TOMLDecodeError"]),
        ("rounds = " + "9" * 5000, ["ValueError"]),
        ("seeds = " + "[" * 5000, ["RecursionError"]),
        ("set = 3", ["set: "]),
        ("rounds = true", ["rounds", "run.toml"]),
        ("[compare.set.local]\nlrr = 3", ["[lrr]", "run.toml"]),
        ('set = ["local.lrr=3"]', ["'lrr'"]),
    ],
)
def test_files_of_settings(run_command, patients, about, tmp_path, content, words):
    (tmp_path / "run.toml").write_text(f"[compare]\n{content}")
    one_line(run_command("compare", patients, *about, "--methods", "local", "--config", "run.toml"), 2, *words)


def test_files_of_settings_are_of_one_command(run_command, tmp_path):
    (tmp_path / "run.toml").write_text("[benefit]\nrounds = 3\n")
    one_line(run_command("compare", "--config", "run.toml"), 2, "run.toml", "[compare]")
    one_line(run_command("compare", "--config", "runs.toml"), 2, "runs.toml")


def test_files_of_settings_that_are_damaged_in_a_folder(run_command, patients, about, tmp_path):
    (tmp_path / "report").mkdir()
    for content in (b"\xff", b"seeds = " + b"[" * 5000):
        (tmp_path / "report" / "run.toml").write_bytes(content)
        one_line(run_command("compare", patients, *about, "--methods", "local", "--out", "report"), 2, "out: ")
        one_line(run_command("predict", "report", patients), 2, "saved: ")
        assert run_command("show", "report").exit_code in (0, 2)


def test_a_run_that_fails_and_one_that_is_interrupted(run_command, patients, about, monkeypatch):
    def fails(*args, **kwargs):
        raise DivergedError("node 'north'", "the loss of node 'north' is nan")

    def stopped(*args, **kwargs):
        raise KeyboardInterrupt

    line = ["compare", patients, *about, "--methods", "local"]
    monkeypatch.setattr(comparing, "compare", fails)
    one_line(run_command(*line), 1, "'north'")
    assert "Traceback" in run_command(*line, "--debug").stderr
    monkeypatch.setattr(comparing, "compare", stopped)
    one_line(run_command(*line), 130, "interrupted")


@pytest.mark.parametrize("error", [AssertionError("x"), AttributeError("x"), RuntimeError("x")])
def test_other_errors_have_a_traceback(run_command, patients, about, monkeypatch, error):
    def fails(*args, **kwargs):
        raise error

    monkeypatch.setattr(comparing, "compare", fails)
    done = run_command("compare", patients, *about, "--methods", "local")
    assert done.exit_code == 1
    assert "Traceback" in done.stderr
    assert done.stderr.rstrip().endswith(f"{type(error).__name__}: x")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE])
def test_errors_of_the_machine_take_one_line_and_the_run_goes_on(run_command, patients, about, monkeypatch, code):
    line = ["compare", patients, *about, "--methods", "local", "--seeds", "0", "--rounds", "1", "--hidden", "4"]
    line += ["--out", "report"]
    written = os.fsync

    def full(descriptor):
        if "results" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(code, os.strerror(code))
        written(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    done = run_command(*line)
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1] == f"graphcollab: {os.strerror(code)}"
    monkeypatch.setattr(os, "fsync", written)
    assert run_command(*line).exit_code == 0


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory")])
def test_memory_that_is_used_up_takes_one_line(run_command, patients, about, monkeypatch, error):
    def fails(*args, **kwargs):
        raise error

    monkeypatch.setattr(comparing, "compare", fails)
    one_line(run_command("compare", patients, *about, "--methods", "local"), 1, "out of memory")


def test_errors_begin_with_their_subject(run_command, patients, about, monkeypatch):
    def fails(*args, **kwargs):
        raise RangeError("evaluate_every", "expected at least 1, got 0")

    monkeypatch.setattr(comparing, "compare", fails)
    done = run_command("compare", patients, *about, "--methods", "local")
    one_line(done, 2, "graphcollab: evaluate_every: expected at least 1, got 0")


def test_without_a_command_there_is_help(run_command):
    assert "compare" in run_command().stdout


def test_a_folder_that_cannot_be_written(run_command, patients, about):
    one_line(run_command("compare", patients, *about, "--methods", "local", "--out", "/proc/x"), 2, "/proc/x")


@pytest.mark.slow
def test_ctrl_c_ends_the_round_and_the_same_line_goes_on(run_command, patients, about, tmp_path):
    line = ["compare", str(patients), *about, "--methods", "local", "--seeds", "0", "--hidden", "4", "--out", "report"]
    line += ["--evaluate-every", "1000", "--rounds", "400"]
    command, pipe = [sys.executable, "-m", "graphcollab", *line], subprocess.PIPE
    process = subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True)
    until, folder = time.monotonic() + 120, tmp_path / "report" / "checkpoints"
    while not any(folder.glob("*/*/state.safetensors")) and time.monotonic() < until and process.poll() is None:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    told, said = process.communicate(timeout=120)
    assert (process.returncode, told) == (130, ""), said
    assert said.splitlines()[-1].startswith("graphcollab: interrupted")
    assert "Traceback" not in said
    assert not (tmp_path / "report" / "results.json").exists()
    done = run_command(*line)
    assert done.exit_code == 0, done.output
    told = json.loads((tmp_path / "report" / "results.json").read_text())
    assert told["methods"]["local"]["rounds"] == 400


def test_counts_that_are_taken_for_classes_are_warned_of(run_command, tmp_path):
    rows = [f"{'abc'[k % 3]},{k % 17},{k % 5}" for k in range(120)]
    (tmp_path / "t.csv").write_text("\n".join(["site,age,los", *rows]))
    line = [
        "compare",
        "t.csv",
        "--target",
        "los",
        "--methods",
        "local",
        "--rounds",
        "1",
        "--hidden",
        "4",
        "--seeds",
        "3",
    ]
    said = [text for text in run_command(*line).stderr.splitlines() if "5 different" in text]
    assert len(said) == 1  # once
    for more in (["--loss", "cross_entropy"], ["--loss", "mse"], ["--categories", "los=0,1,2,3,4"]):
        assert "5 different" not in run_command(*line, *more).stderr


@pytest.mark.parametrize("command", ["methods", "show"])
@pytest.mark.slow
def test_a_pipe_that_nobody_reads_is_no_error(tmp_path, command):
    words = [command] + ["l2c"] * (command == "show")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "graphcollab", *words], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
