"""The person who submits jobs: ``python admin.py NAME KIT`` opens a session and does what its standard input says.

A line is a JSON list, a method of FLARE's ``Session`` and its arguments; the answer is a line too, with "result" or
"error". It is a process of its own, since a session leaves threads behind and logs to the standard output.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time

from nvflare.fuel.flare_api.flare_api import new_secure_session


def session(name: str, kit: str, seconds: float = 60.0):
    """Log in as soon as the server is there."""
    end = time.monotonic() + seconds
    while True:
        try:
            return new_secure_session(name, kit, timeout=5)
        except Exception:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def clients(opened) -> list[str]:
    """Names of the sites that are connected."""
    return sorted(client.name for client in opened.get_system_info().client_info)


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what FLARE prints is no answer
    with contextlib.closing(session(*sys.argv[1:])) as opened:
        for line in sys.stdin:
            method, *arguments = json.loads(line)
            try:
                told = {"result": clients(opened) if method == "clients" else getattr(opened, method)(*arguments)}
            except Exception as error:
                told = {"error": f"{type(error).__name__}: {error}"}
            answers.write(json.dumps(told, default=str) + "\n")
