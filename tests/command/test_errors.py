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

from graphcollab.command import comparing


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
        (["--methods", "fedavgg"], ["unknown method 'fedavgg'", "did you mean 'fedavg'?"]),
        (["--methods", "local", "local"], ["methods must differ", "'local'"]),
        ([], ["--methods is missing"]),
        (["--methods", "local", "--rounds", "0"], ["rounds must be a whole number of at least 1, got 0"]),
        (["--methods", "local", "--rounds", "many"], ["rounds must be a whole number of at least 1, got 'many'"]),
        (["--methods", "local", "--roundz", "3"], ["--roundz", "--rounds"]),
        (["--methods", "local", "--pooled", "sum"], ["pooled must be 'sums' or 'per_site'", "did you mean 'sums'?"]),
        (["--methods", "local", "--lrs", "0.1", "-1"], ["lrs must be a positive finite number, got -1"]),
        (["--methods", "local", "--device", "gpu9"], ["device 'gpu9' cannot be used"]),
        (["--methods", "cobo", "--set", "cobo.rh=1"], ["unknown setting of cobo 'rh'", "did you mean 'rho'?"]),
        (["--methods", "cobo", "--set", "cobo.rho=-1"], ["cobo.rho must be a positive finite number, got -1"]),
        (["--methods", "cobo", "--set", "l2c.own=x"], ["unknown method 'l2c'", "those that are asked for"]),
        (["--methods", "cobo", "--set", "cobo"], ["METHOD.SETTING=VALUE"]),
        (["--methods", "local", "--target", "diseas"], ["there is no column 'diseas'", "did you mean 'disease'?"]),
        (["--methods", "local", "--metric", "acuracy"], ["did you mean 'accuracy'?", "'rmse' or none, got"]),
        (["--methods", "local", "--on-nonfinite", "halt"], ["on_nonfinite must be 'stop' or 'isolate', got 'halt'"]),
    ],
)
def test_wrong_usage(call, patients, about, tmp_path, more, words):
    one_line(call("compare", patients, *about, *more, "--out", "report"), 2, *words)
    assert not (tmp_path / "report").exists()


def test_a_target_that_is_the_same_everywhere(call, patients, about, tmp_path):
    patients.write_text(patients.read_text().replace("well", "ill"))
    line = [*about, "--methods", "local", "--out", "report"]
    one_line(call("compare", patients, *line), 2, "'disease' has one class only, 'ill'", "another column by --target")
    assert not (tmp_path / "report").exists()


def test_models_are_saved_in_a_folder(call, patients, about):
    one_line(call("compare", patients, *about, "--methods", "local", "--save"), 2, "--save", "--out")


def test_files_that_are_not_there(call, patients, about):
    one_line(call("compare", "patient.csv", *about, "--methods", "local"), 2, "no file patient.csv", "'patients.csv'")
    one_line(call("compare", ".", *about, "--methods", "local"), 2, ". is a folder")
    one_line(call("compare", "digits", *about, "--methods", "local"), 2, "--node is of tables, and digits is none")
    done = call("compare", "digits", "--methods", "local", "--sites", "7")
    one_line(done, 2, "--sites 7 with --classes-per-node 2 of 10 classes cannot be dealt out evenly")
    one_line(call("compare", *about, "--methods", "local"), 2, "DATA is missing")
    one_line(call("predict", "nothing", patients), 2, "nothing")
    one_line(call("show", "l2k"), 2, "did you mean 'l2c'?")
    one_line(call("compar"), 2, "compar")


def test_a_folder_with_something_else(call, patients, about, tmp_path):
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "thesis.tex").write_text("")
    one_line(call("compare", patients, *about, "--methods", "local", "--out", "report"), 2, "thesis.tex")
    assert [one.name for one in (tmp_path / "report").iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("lrz = [0.1]", ["unknown setting 'lrz'", "did you mean 'lrs'?"]),
        ("rounds = 0", ["rounds must be a whole number of at least 1, got 0"]),
        ("rounds = ", ["run.toml is no TOML"]),
        ("rounds = " + "9" * 5000, ["run.toml is no TOML: Exceeds the limit"]),
        ("seeds = " + "[" * 5000, ["run.toml is no file of settings: it is nested too deeply"]),
        ('command = "benefit"', ["settings of graphcollab benefit"]),
        ("data = 3", ["data must be a path"]),
        ("set = 3", ["set must be tables"]),
        ("[categories]\nsex = 3", ["categories.sex must list categories"]),
        ("rounds = true", ["run.toml: rounds must be a whole number"]),
        ("[set.local]\nlrr = 3", ["unknown setting of local 'lrr'", "did you mean 'lr'?"]),
    ],
)
def test_files_of_settings(call, patients, about, tmp_path, content, words):
    (tmp_path / "run.toml").write_text(content)
    one_line(call("compare", patients, *about, "--methods", "local", "--config", "run.toml"), 2, *words)


def test_files_of_settings_that_are_damaged_in_a_folder(call, patients, about, tmp_path):
    (tmp_path / "report").mkdir()
    for content in (b"\xff", b"seeds = " + b"[" * 5000):
        (tmp_path / "report" / "run.toml").write_bytes(content)
        one_line(call("compare", patients, *about, "--methods", "local", "--out", "report"), 2, "holds a damaged run")
        one_line(call("predict", "report", patients), 2, "report has no saved models: repeat its command")
        assert call("show", "report").exit_code in (0, 2)


def test_a_run_that_fails_and_one_that_is_interrupted(call, patients, about, monkeypatch):
    def fails(*args, **kwargs):
        raise ArithmeticError("node 'north': loss is nan")

    def stopped(*args, **kwargs):
        raise KeyboardInterrupt

    line = ["compare", patients, *about, "--methods", "local"]
    monkeypatch.setattr(comparing, "compare", fails)
    one_line(call(*line), 1, "node 'north': loss is nan")
    assert "Traceback" in call(*line, "--debug").stderr
    monkeypatch.setattr(comparing, "compare", stopped)
    one_line(call(*line), 130, "interrupted; nothing was kept, with --out the same command would go on")


def test_a_bug_is_told_from_wrong_input(call, patients, about, tmp_path, monkeypatch):
    line = ["compare", patients, *about, "--methods", "local"]
    monkeypatch.setattr(comparing, "compare", lambda *args, **kwargs: int("x"))
    one_line(
        call(*line, "--out", "report"), 1, "an error of graphcollab", "ValueError: invalid literal", "report/traceback"
    )
    assert "invalid literal" in (tmp_path / "report" / "traceback.txt").read_text()
    one_line(call(*line), 1, "an error of graphcollab", "traceback.txt says where")
    assert "Traceback" in call(*line, "--debug").stderr


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "the disk is full: free space, or name another --out, and repeat the command"),
        (errno.EDQUOT, "the quota of the disk is used up"),
        (errno.EROFS, "the disk can only be read"),
        (errno.EIO, "the disk has failed"),
        (errno.EMFILE, "too many files are open: allow more by ulimit -n"),
    ],
)
def test_what_is_wrong_with_the_machine_is_no_error_of_the_package(call, patients, about, monkeypatch, code, words):
    line = ["compare", patients, *about, "--methods", "local", "--seeds", "0", "--rounds", "1", "--hidden", "4"]
    line += ["--out", "report"]
    written = os.fsync

    def full(descriptor):
        if "results" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(code, os.strerror(code))
        written(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    done = call(*line)
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1].startswith(f"graphcollab: {words}")
    assert "please report" not in done.stderr
    monkeypatch.setattr(os, "fsync", written)
    assert call(*line).exit_code == 0


def test_other_errors_of_the_operating_system_are_errors_of_the_package(call, patients, about, monkeypatch):
    def shut(*args, **kwargs):
        os.fstat(-1)

    monkeypatch.setattr(comparing, "compare", shut)
    one_line(
        call("compare", patients, *about, "--methods", "local"), 1, "an error of graphcollab", "Bad file descriptor"
    )


def test_messages_speak_of_options(call, patients, about):
    one_line(call("compare", patients, "--methods", "local"), 2, "--node which column")
    done = call("compare", patients, *about, "--methods", "local", "--metric", "mae")
    one_line(done, 2, "--metric mae is", "--loss cross_entropy", "or --loss mse if")


def test_what_must_come_first_and_came_last(call, patients, about):
    one_line(
        call("compare", *about, "--methods", "local", patients), 2, "DATA is missing", "put it right behind compare"
    )
    assert "Commands:\n" in call().stderr


def test_a_folder_that_cannot_be_written(call, patients, about):
    one_line(call("compare", patients, *about, "--methods", "local", "--out", "/proc/x"), 2, "--out /proc/x cannot be")


def test_ctrl_c_ends_the_round_and_the_same_line_goes_on(call, patients, about, tmp_path):
    line = ["compare", str(patients), *about, "--methods", "local", "--seeds", "0", "--hidden", "4", "--out", "report"]
    line += ["--evaluate-every", "1000", "--rounds", "400"]
    command, pipe = [sys.executable, "-m", "graphcollab", *line], subprocess.PIPE
    process = subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True)
    until, folder = time.monotonic() + 120, tmp_path / "report" / "checkpoints"
    while not any(folder.glob("*/*/manifest.json")) and time.monotonic() < until and process.poll() is None:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    told, said = process.communicate(timeout=120)
    assert (process.returncode, told) == (130, ""), said
    assert said.splitlines()[-1] == "graphcollab: interrupted; stopped in trial 1 of 1; the same command goes on"
    assert "Traceback" not in said
    assert not (tmp_path / "report" / "results.json").exists()
    done = call(*line)
    assert done.exit_code == 0, done.output
    told = json.loads((tmp_path / "report" / "results.json").read_text())
    assert told["methods"]["local"]["rounds"] == 400


def test_true_clusters_that_a_table_has_not(call, patients, about):
    done = call("compare", patients, *about, "--methods", "oracle", "local", "--rounds", "1", "--seeds", "0")
    one_line(done, 2, "leave the method out", "--partition groups")
    assert "Tasks(" not in done.stderr


def test_metrics_in_a_warning_are_given_alike(call, patients, about):
    rows = [row.replace("well", "ill") if row.startswith("north") else row for row in patients.read_text().split("\n")]
    patients.write_text("\n".join(rows))
    done = call("compare", patients, *about, "--methods", "local", "--metric", "auc", "--rounds", "1", "--seeds", "0")
    assert "use --metric log_loss or --metric brier" in done.stderr


@pytest.mark.parametrize("command", ["methods", "show"])
def test_a_pipe_that_nobody_reads_is_no_error(tmp_path, command):
    words = [command] + ["l2c"] * (command == "show")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "graphcollab", *words], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
