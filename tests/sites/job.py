"""A job that names classes of installed packages, and ships no code."""

from __future__ import annotations

import json
from pathlib import Path

RUNTIME = "nvflare.collab.runtime."


def write_job(
    folder: Path, server: str, client: str, executor: str = RUNTIME + "executor.CollabExecutor", **settings: object
) -> Path:
    """Write a job's folder.

    Args:
        folder: is made.
        server: class path of the server's object, which has the main function.
        client: class path of a site's object.
        executor: class path of what connects a site's object with FLARE.
        settings: arguments of the server's object.
    """
    flow = {"id": "flow", "path": RUNTIME + "controller.CollabController", "args": {"server_obj_id": "object"}}
    connect = {"path": executor, "args": {"client_obj_id": "object"}}
    at_server = {
        "server": {"task_request_interval": 0.2},  # seconds; 2 by default
        "workflows": [flow],
        "components": [{"id": "object", "path": server, "args": settings}],
    }
    at_site = {
        "executors": [{"tasks": ["*"], "executor": connect}],
        "components": [{"id": "object", "path": client, "args": {}}],
    }
    meta = {"name": folder.name, "resource_spec": {}, "min_clients": 1, "deploy_map": {"app": ["@ALL"]}}
    config = folder / "app" / "config"
    config.mkdir(parents=True)
    (folder / "meta.json").write_text(json.dumps(meta))
    for name, content in (("server", at_server), ("client", at_site)):
        (config / f"config_fed_{name}.json").write_text(json.dumps({"format_version": 2, **content}))
    return folder
