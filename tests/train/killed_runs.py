"""Runs that are killed, interrupted and resumed: ``killed_runs.py CASE`` prints what differs in the end, as JSON.

A process is forked for every attempt.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import asdict
from pathlib import Path

import torch
from torch import nn

import graphcollab
from graphcollab import Method, Phases
from graphcollab.components import Exchange, Fit, Uniform
from graphcollab.engine import Adam
from graphcollab.methods import fedavg, l2c, meta_l2c
from graphcollab.models import MLP
from graphcollab.persistence import checkpoint, saver
from graphcollab.testing import Scene, differences
from graphcollab.train import Callback, Checkpoint, RecordGraph
from graphcollab.transforms import WithSelfLoops

ROUNDS = 12
ADAM = Fit(epochs=2, batch_size=16, optimizer=Adam(lr=0.02), keep_state=True)
QUICK = {"epochs": 1, "lr": 0.1, "batch_size": 4}


def dropout_model():
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.3), nn.Linear(6, 3))


def norm_model():
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))


averaging = Method(
    "averaging",
    local=ADAM,
    weigh=Uniform(),
    exchange=Exchange("zero", "x", buffers="average"),
    prepare=WithSelfLoops(),
)
CASES = {
    "l2c": {"method": l2c(**QUICK, drop_round=5)},
    "meta_l2c": {"method": meta_l2c(**QUICK, drop_round=5), "evaluate_every": 2, "every": 3},
    "client sampling": {"method": fedavg(**QUICK, momentum=0.5, fraction=0.5)},
    "kept optimizer": {"method": averaging, "model": norm_model},
    "dropout": {"method": averaging, "model": dropout_model},
    "patience": {"method": meta_l2c(epochs=1, lr=0.5, batch_size=4), "patience": 3},
    "phases": {"method": Phases(fedavg(**QUICK), 7, l2c(**QUICK, drop_round=9)), "every": None},
}


class Log(Callback):
    """Writes the history after every evaluation."""

    def __init__(self, path):
        self.path = path

    def on_evaluate(self, data, history):
        history.to_csv(self.path)


def train(case, folder, save=True, callbacks=()):
    settings = {"model": lambda: MLP(4, (6,), 3), "rounds": ROUNDS, "seed": 3, "every": 1, **CASES[case]}
    tasks, every = Scene.small(torch.float32).tasks, settings.pop("every")
    logs = [RecordGraph({1, 6, ROUNDS}), Log(folder / "log.csv"), *callbacks]
    return graphcollab.run(
        settings.pop("method"),
        tasks,
        settings.pop("model"),
        checkpoint=Checkpoint(folder / "checkpoints", every) if save else None,
        callbacks=logs,
        **settings,
    )


def state(result, folder):
    """Everything two runs must agree in, bit for bit."""
    history = asdict(result.history)
    del history["seconds"]
    return {
        "data": result.data,
        "history": history,
        "models": result.stacks,
        "log": (folder / "log.csv").read_text(),
    }


def spawn(work):
    """Fork a process that does some work; return its id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def killed_after(seconds, work):
    """Do work in a process that is killed after some time; return whether it was done before."""
    child = spawn(work)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if status:
                raise RuntimeError(f"a run ended by itself with status {status}")
            return True
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def killed_while_writing(call, place, work):
    """Do work in a process that is killed at a place of its n-th write of a checkpoint; tell whether it got there."""
    count, (write, flush, remove) = 0, (saver.write_checkpoint, saver.flush_folder, saver.remove_checkpoint)
    write_new = checkpoint.write_new

    def writing(folder, *content):
        nonlocal count
        count += 1
        if count == call and place == "history written":
            die()
        write(folder, *content)
        if count == call and place == "half":
            state = folder / "state.safetensors"
            state.write_bytes(state.read_bytes()[: state.stat().st_size // 2])
        if count == call and place in ("half", "before rename"):
            die()

    def writing_file(*content):
        if count == call and place == "before the file":
            die()
        write_new(*content)

    def flushing(folder):
        if count == call and place == "after rename":
            die()  # renamed, but older checkpoints are still there
        flush(folder)

    def removing(path):
        if count == call and place == "while removing":
            next(path.iterdir()).unlink()
            die()
        remove(path)

    def patched():
        saver.write_checkpoint, saver.flush_folder, saver.remove_checkpoint = writing, flushing, removing
        checkpoint.write_new = writing_file
        work()

    _, status = os.waitpid(spawn(patched), 0)
    if not os.WIFSIGNALED(status) and status:
        raise RuntimeError(f"a run ended by itself with status {status}")
    return os.WIFSIGNALED(status)


class InterruptAt(Callback):
    """Presses Ctrl-C in the middle of a run."""

    def __init__(self, round_):
        self.round = round_

    def on_round(self, data, history):
        if data.round == self.round:
            os.kill(os.getpid(), signal.SIGINT)


def by_delays(case, folder):
    kills = 0
    for attempt in range(12):
        if killed_after(0.05 * 2**attempt, lambda: train(case, folder)):
            break
        kills += 1
    return kills


def by_writes(case, folder):
    kills = 0
    for call, place in (
        (2, "half"),
        (1, "before rename"),
        (3, "after rename"),
        (1, "half"),
        (2, "history written"),
        (2, "while removing"),
        (2, "before rename"),
        (2, "before the file"),
    ):
        kills += killed_while_writing(call, place, lambda: train(case, folder))
    return kills


def by_interrupts(case, folder):
    kills = 0

    def interrupted(round_):
        def work():
            result = train(case, folder, callbacks=[InterruptAt(round_)])
            saved = sorted((folder / "checkpoints").glob("round-*"))[-1].name
            assert result.interrupted, "Ctrl-C was not noticed"
            assert saved == f"round-{round_:06d}", f"saved {saved}, interrupted in round {round_}"

        return work

    for round_ in (1, 6):
        _, status = os.waitpid(spawn(interrupted(round_)), 0)
        if status:
            raise RuntimeError(f"an interrupted run ended with status {status}")
        kills += 1
    return kills


WAYS = {
    by_delays: list(CASES),
    by_writes: ["meta_l2c"],
    by_interrupts: ["patience", "kept optimizer"],
}


def main(case):
    report = {}
    with tempfile.TemporaryDirectory() as place:
        plain = Path(place, "plain")
        expected = state(train(case, plain, save=False), plain)
        for disturb in (way for way, cases in WAYS.items() if case in cases):
            folder = Path(place, disturb.__name__)
            kills = disturb(case, folder)
            result = train(case, folder)
            report[disturb.__name__] = {
                "kills": kills,
                "rounds": result.history.rounds[-1],
                "differs": differences(expected, state(result, folder)),
                "files": sorted(path.name for path in (folder / "checkpoints").iterdir()),
            }
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1])
