"""The files by which FLARE plays a run between sites."""

from __future__ import annotations

import json

from graphcollab.sites import allow, job
from tests.raising import raises

SITE = {
    "class_allow_list": ["nvflare.apis."],
    "allow_log_streaming": True,
    "components": [{"id": "process_launcher", "path": "nvflare.some.Launcher", "args": {}}],
}
SERVER = {
    "class_allow_list": [],
    "snapshot_persistor": {"args": {"storage": {"args": {"root_dir": "/tmp/nvflare/snapshot-storage"}}}},
    "components": [{"id": "job_manager", "args": {"uri_root": "/srv/jobs"}}],
}

POLICY = {"permissions": {"project_admin": "any", "lead": {"submit_job": "o:site", "byoc": "any"}}}


def kit(folder, resources):
    (folder / "local").mkdir()
    (folder / "local" / "resources.json.default").write_text(json.dumps(resources))
    (folder / "local" / "authorization.json.default").write_text(json.dumps(POLICY))
    return folder


def test_a_site_allows_runs_and_keeps_its_errors(tmp_path):
    path = allow(kit(tmp_path, SITE))
    found = json.loads(path.read_text())
    assert path == tmp_path / "local" / "resources.json"
    runtime = "nvflare.collab.runtime."
    own = [runtime + "controller.CollabController", runtime + "executor.CollabExecutor", "graphcollab.sites.flare."]
    assert found["class_allow_list"] == own
    assert found["allow_log_streaming"] is False
    assert found["components"] == [
        {"id": "process_launcher", "path": "graphcollab.sites.flare.again.Launcher", "args": {}}
    ]
    assert json.loads((tmp_path / "local" / "resources.json.default").read_text()) == SITE


def test_nobody_may_bring_code(tmp_path):
    allow(kit(tmp_path, SITE))
    path = tmp_path / "local" / "authorization.json"
    found = json.loads(path.read_text())
    chief, lead = {"submit_job": "any", "byoc": "none"}, {"submit_job": "o:site", "byoc": "none"}
    assert found == {"permissions": {"project_admin": chief, "lead": lead}}
    path.write_text(json.dumps({"permissions": {"lead": {"submit_job": "none", "byoc": "any"}}}))
    allow(tmp_path)
    assert json.loads(path.read_text()) == {"permissions": {"lead": {"submit_job": "none", "byoc": "none"}}}


def test_what_an_administrator_has_changed_stays_and_nothing_is_allowed_twice(tmp_path):
    path = allow(kit(tmp_path, SITE))
    changed = json.loads(path.read_text()) | {"own": 1}
    changed["class_allow_list"].insert(0, "hospital.parts.")
    path.write_text(json.dumps(changed))
    allow(tmp_path)
    assert json.loads(path.read_text()) == changed


def test_what_an_administrator_allows_besides_is_kept(tmp_path):
    (kit(tmp_path, SITE) / "local" / "resources.json").write_text(json.dumps(SITE))
    found = json.loads(allow(tmp_path).read_text())["class_allow_list"]
    assert found[0] == "nvflare.apis."
    assert found[-1] == "graphcollab.sites.flare."


def test_a_server_keeps_jobs_in_its_kit_unless_told_where(tmp_path):
    found = json.loads(allow(kit(tmp_path, SERVER)).read_text())
    assert found["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] == str(tmp_path / "snapshots")
    assert found["components"][0]["args"]["uri_root"] == "/srv/jobs"
    assert "allow_log_streaming" not in found


def test_what_is_no_kit_is_refused(tmp_path):
    with raises("missing-file", "kit", kind=FileNotFoundError):
        allow(tmp_path)


def test_a_job_holds_no_code_and_what_it_was_told(tmp_path):
    folder = job(tmp_path / "hearts", deadline=30.0, at_least=3)
    files = {path.name: json.loads(path.read_text()) for path in folder.rglob("*") if path.is_file()}
    assert set(files) == {"meta.json", "config_fed_server.json", "config_fed_client.json"}
    assert files["meta.json"]["name"] == "hearts"
    assert files["meta.json"]["min_clients"] == 3
    assert files["config_fed_server.json"]["components"][0]["args"] == {"deadline": 30.0, "at_least": 3}
    assert files["config_fed_client.json"]["components"][0]["args"] == {"deadline": 30.0}
    with raises("exists", f"folder {folder}", kind=FileExistsError):
        job(folder)
