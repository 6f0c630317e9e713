"""`job` and `allow`: write the files with which NVIDIA FLARE plays a run between sites. Neither needs FLARE itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from graphcollab._base.errors import ExistsError, MissingFileError
from graphcollab._base.files import write_whole
from graphcollab._base.settings import Count, Positive, checked

OWN = "graphcollab.sites.flare."
RUNTIME = "nvflare.collab.runtime."
CLASSES = (RUNTIME + "controller.CollabController", RUNTIME + "executor.CollabExecutor", OWN)

Seconds = Annotated[float, Positive]


@checked
def job(folder: str | Path, *, deadline: Seconds = 60.0, at_least: Count = 1) -> Path:
    """Write the folder of a FLARE job in which all connected sites run their scripts; it contains no code.

    Args:
        folder: New folder; its name is the name of the job.
        deadline: Seconds without a sign of life after which a site is left behind.
        at_least: Minimum number of sites for the run to continue. The job starts with all connected sites.

    Returns:
        The folder.

    Example:
        >>> import tempfile
        >>> folder = job(tempfile.mkdtemp() + "/hearts", deadline=30.0)
        >>> sorted(path.name for path in folder.rglob("*.json"))
        ['config_fed_client.json', 'config_fed_server.json', 'meta.json']
    """
    folder = Path(folder)
    if folder.exists():
        raise ExistsError(f"folder {folder}", f"{folder} is there already: give the name of a folder that is not")
    flow = {"id": "flow", "path": CLASSES[0], "args": {"server_obj_id": "graphcollab"}}
    connect = {"path": OWN + "again.Executor", "args": {"client_obj_id": "graphcollab"}}
    meets = {"id": "graphcollab", "path": OWN + "Server", "args": {"deadline": deadline, "at_least": at_least}}
    acts = {"id": "graphcollab", "path": OWN + "Client", "args": {"deadline": deadline}}
    server = {"server": {"task_request_interval": 0.2}, "workflows": [flow], "components": [meets]}
    client = {"executors": [{"tasks": ["*"], "executor": connect}], "components": [acts]}
    about = {"name": folder.name, "resource_spec": {}, "min_clients": at_least, "deploy_map": {"app": ["@ALL"]}}
    write_whole(folder / "app/config/config_fed_server.json", _text({"format_version": 2, **server}))
    write_whole(folder / "app/config/config_fed_client.json", _text({"format_version": 2, **client}))
    write_whole(folder / "meta.json", _text(about))
    return folder


@checked
def allow(kit: str | Path) -> Path:
    """Enable a startup kit for runs; the administrators of every site and of the server do this once.

    Writes ``local/resources.json`` beside the kit's ``resources.json.default``, or extends an existing file: jobs may
    name the classes of this package and the two FLARE classes through which sites call each other (in a new file, no
    others; FLARE's default list has classes that read files or send logs); a killed job is restarted, also after a
    reboot of the machine; errors stay at the site; and the server keeps its jobs in its kit, not in ``/tmp``. Likewise,
    ``local/authorization.json`` forbids jobs to bring code, which FLARE allows administrators by default.

    Args:
        kit: The folder of a site or of the server, made by FLARE's ``nvflare provision``.

    Returns:
        The path of ``local/resources.json``.
    """
    local = Path(kit).absolute() / "local"
    path, given = local / "resources.json", local / "resources.json.default"
    source = path if path.exists() else given
    if not source.exists():
        raise MissingFileError("kit", f"{kit} is no startup kit of a site or a server: it has no local/{given.name}")
    resources = json.loads(source.read_text())
    allowed = resources.get("class_allow_list", []) if source == path else []
    resources["class_allow_list"] = [*allowed, *(one for one in CLASSES if one not in allowed)]
    components = {one["id"]: one for one in resources["components"]}
    if "snapshot_persistor" in resources:
        storage = resources["snapshot_persistor"]["args"]["storage"]["args"]
        jobs = components["job_manager"]["args"]
        for settings, name, own in ((storage, "root_dir", "snapshots"), (jobs, "uri_root", "jobs")):
            if settings[name].startswith("/tmp/"):
                settings[name] = str(local.parent / own)
    else:
        resources["allow_log_streaming"] = False
        components["process_launcher"]["path"] = OWN + "again.Launcher"
    _refuse_code(local)
    return write_whole(path, _text(resources))


def _refuse_code(local: Path) -> None:
    path, given = local / "authorization.json", local / "authorization.json.default"
    policy = json.loads((path if path.exists() else given).read_text())
    roles = policy["permissions"]
    every = {right for rights in roles.values() if isinstance(rights, dict) for right in rights}
    for role, rights in roles.items():
        listed = rights if isinstance(rights, dict) else dict.fromkeys(sorted(every), rights)
        roles[role] = {**listed, "byoc": "none"}
    write_whole(path, _text(policy))


def _text(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
