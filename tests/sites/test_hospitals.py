"""Four hospitals play together, each as a user of its own that can read its own patients only."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest
import torch

from graphcollab import build_model, methods, run
from graphcollab.sites import job
from tests.data.rooms import prepared
from tests.sites.deployment import Deployment, deployment, wait_for
from tests.sites.hospitals import SETTINGS, SITES, scripts, write_files
from tests.sites.simulator import simulate

METHODS = ("fedavg", "ditto", "l2c", "meta_l2c", "cobo", "dac")
ROUNDS = 5
TOLERANCE = 1e-4  # models of float32, whose sums processors may round otherwise

PLAY = f"""
import torch


def model(tasks):
    return graphcollab.build_model("mlp", tasks.input_shape, 2, hidden=16)


for name in {METHODS}:
    result = hospital.run(getattr(graphcollab.methods, name)(), model, rounds={ROUNDS})
    torch.save({{k: one.state_dict() for k, one in result.models().items()}}, private / f"{{name}}.pt")
    result.history.to_json(private / f"{{name}}.json")

for path in {{others}}:
    try:
        open(path).read()
    except PermissionError:
        continue
    (private / "others.txt").write_text("could be read: " + path)
"""

LONG = '''
import time
from graphcollab.train import Callback


class Watch(Callback):
    """Tells how far the run has come, lets it last, and ends it when the test says so."""

    def on_round(self, data, history):
        (private / "round").write_text(str(data.round))
        time.sleep(0.2)

    def should_stop(self, data, history):
        return (private / "stop").exists()


result = hospital.run(
    graphcollab.methods.dpsgd(),
    lambda tasks: graphcollab.build_model("mlp", tasks.input_shape, 2, hidden=16),
    rounds=5000,
    callbacks=[Watch()],
    checkpoint=graphcollab.train.Checkpoint(private / "checkpoints", every=1),
)
result.history.to_json(private / "history.json")
result.save(private / "models")
'''

needs_flare = pytest.mark.skipif(
    importlib.util.find_spec("nvflare") is None, reason="needs NVIDIA FLARE: pip install 'graphcollab[nvflare]'"
)


def prepare(files: dict[str, Path], body: str) -> dict[str, dict[str, str | Path]]:
    """What lies in every site's private folder."""
    texts = scripts(body)
    return {name: {"own.csv": files[name], "own.py": texts[name]} for name in SITES}


def check(name: str, site: str, private: Path, alone) -> None:
    """What a site has found is what one process finds with all patients."""
    models = torch.load(private / f"{name}.pt")
    assert list(models) == [site]
    for key, value in alone.models()[site].state_dict().items():
        assert torch.allclose(value, models[site][key], atol=TOLERANCE, rtol=TOLERANCE), (name, site, key)
    told = json.loads((private / f"{name}.json").read_text())
    for field in ("test_metric", "train_loss"):
        found = torch.tensor(told["values"][field])
        assert torch.allclose(found, torch.stack(alone.history.values[field]).to(found), atol=1e-2), (name, site)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_hospitals_find_what_one_process_finds(tmp_path):
    files = write_files(tmp_path)
    pooled = prepared(files, **SETTINGS)
    others = f"[f'{{private.parents[1]}}/{{k}}/private/own.csv' for k in {SITES} if k != hospital.name]"
    body = PLAY.replace("{others}", others)
    variables = {"GRAPHCOLLAB_SITE": "{private}/own.py"}
    with deployment(SITES, start=False, files=prepare(files, body), environment=variables) as deployed:
        deployed.sites["Hungary"].environment["ATEN_CPU_CAPABILITY"] = "default"  # another processor
        deployed.start()
        played = deployed.submit(job(tmp_path / "hearts"))
        status = deployed.wait(played, 600)
        said = "\n".join(site.output.read_text()[-3000:] for site in deployed.sites.values())
        assert status == "FINISHED:COMPLETED", said
        for name in METHODS:
            alone = run(
                getattr(methods, name)(),
                pooled,
                lambda tasks: build_model("mlp", tasks.input_shape, 2, hidden=16),
                rounds=ROUNDS,
            )
            for site in SITES:
                check(name, site, deployed.sites[site].private, alone)
        assert not [site for site in SITES if (deployed.sites[site].private / "others.txt").exists()]
        inputs = {f"{abs(value):.9f}" for value in pooled.pools["samples"].inputs.flatten().tolist() if value % 1}
        logs = "\n".join(one.log() + one.output.read_text() for one in deployed.everyone.values() if one.kit.exists())
        assert len(inputs) > 100
        assert not inputs & {f"{float(number):.9f}" for number in re.findall(r"\d+\.\d{9,}", logs)}
        assert "send_request" not in logs  # FLARE's two lines for every call


def turn(deployed: Deployment, played: str, what: str, count: int) -> None:
    """Wait until the coordinator has said something of Hungary so many times."""
    path = deployed.server.kit / played / "log.txt"
    wait_for(lambda: path.read_text().count(f"Hungary is {what}") >= count, 120, f"Hungary is {what}, {count}")


def played_so_far(deployed: Deployment) -> int:
    path = deployed.sites["Cleveland"].private / "round"
    return int(path.read_text() or 0) if path.exists() else 0


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_a_hospital_that_is_lost_comes_back(tmp_path):
    variables = {"GRAPHCOLLAB_SITE": "{private}/own.py"}
    with deployment(SITES, files=prepare(write_files(tmp_path), LONG), environment=variables) as deployed:
        hungary, cleveland = deployed.sites["Hungary"], deployed.sites["Cleveland"]
        folder = job(tmp_path / "hearts", deadline=6.0)
        played = deployed.submit(folder)
        wait_for(lambda: played_so_far(deployed) > 2, 120, "the run plays")

        hungary.kill(only_job=True)
        turn(deployed, played, "back", 1)
        hungary.kill()
        turn(deployed, played, "left behind", 2)
        hungary.start()
        turn(deployed, played, "back", 2)
        hungary.freeze()
        turn(deployed, played, "left behind", 3)
        hungary.thaw()
        turn(deployed, played, "back", 3)
        back = played_so_far(deployed)
        wait_for(lambda: played_so_far(deployed) > back + 3, 60, "the run goes on")
        (cleveland.private / "stop").touch()
        assert deployed.wait(played, 180) == "FINISHED:COMPLETED", hungary.output.read_text()[-5000:]
        told = [json.loads((site.private / "history.json").read_text()) for site in deployed.sites.values()]
        at = SITES.index("Hungary")
        away = [row[at] is None for row in told[0]["values"]["test_metric"]]
        assert any(away)
        assert not away[0]
        assert not away[-1]
        assert all(one["values"]["test_metric"] == told[0]["values"]["test_metric"] for one in told)
        assert "goes on without it" in cleveland.log()

        (cleveland.private / "stop").unlink()
        again = deployed.submit(folder)
        last = len(away)
        wait_for(lambda: played_so_far(deployed) > last + 2, 120, "the run goes on where it was")
        deployed.server.kill(only_job=True)
        assert deployed.wait(again, 120).startswith("FINISHED:"), deployed.server.log()[-3000:]
        wait_for(lambda: not hungary.working(), 60, "the sites end")
        assert "FLARE has ended the job, and the server's log says why" in hungary.output.read_text()
        last = played_so_far(deployed)
        once_more = deployed.submit(folder)
        wait_for(lambda: played_so_far(deployed) > last + 2, 120, "the run goes on where it was")
        (cleveland.private / "stop").touch()
        assert deployed.wait(once_more, 180) == "FINISHED:COMPLETED"
        rounds = json.loads((hungary.private / "history.json").read_text())["rounds"]
        assert rounds == list(range(1, len(rounds) + 1))
        assert len(rounds) > last


@needs_flare
@pytest.mark.slow
def test_two_sites_play_in_the_simulator(tmp_path):
    files = write_files(tmp_path)
    names = SITES[:2]
    script = tmp_path / "own.py"
    script.write_text(
        f"""
import json, os
from pathlib import Path
import graphcollab

name, here = Path.cwd().name, Path({str(tmp_path)!r})
hospital = graphcollab.site(name, here / f"{{name}}.csv", **{SETTINGS})
model = lambda tasks: graphcollab.build_model("mlp", tasks.input_shape, 2, hidden=4)
result = hospital.run(graphcollab.methods.fedavg(), model, rounds=2)
result.history.to_json(here / f"{{name}}.json")
"""
    )
    done = simulate(job(tmp_path / "job"), names, tmp_path / "simulated", {"GRAPHCOLLAB_SITE": str(script)})
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    pooled = prepared({name: files[name] for name in names}, **SETTINGS)
    alone = run(
        methods.fedavg(),
        pooled,
        lambda tasks: build_model("mlp", tasks.input_shape, 2, hidden=4),
        rounds=2,
    )
    for name in names:
        path = tmp_path / f"{name}.json"
        assert path.exists(), (done.stdout + done.stderr)[-5000:]
        found = torch.tensor(json.loads(path.read_text())["values"]["test_metric"])
        assert torch.allclose(found, torch.stack(alone.history.values["test_metric"]).to(found), atol=1e-2)
