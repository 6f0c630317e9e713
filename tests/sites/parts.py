"""What a job of the tests of deployments names: a server that asks sites questions, and a site that answers."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from nvflare.collab import collab


class Server:
    """Asks all sites again and again, and writes what it hears to ``heard.jsonl``, until all have answered.

    Args:
        question: the file that every site is asked to read.
        seconds: how long it asks at least.
    """

    def __init__(self, question: str, seconds: float):
        self.question, self.seconds = question, seconds

    @collab.main
    def main(self):
        folder = Path(collab.workspace.get_run_dir(collab.fl_ctx.get_job_id()))
        end = time.monotonic() + self.seconds
        done = False
        while not done and not collab.is_aborted:
            answers = {}
            for site in collab.clients:
                try:
                    answers[site.name] = site(timeout=3).read(path=self.question)
                except Exception as error:
                    answers[site.name] = {"error": str(error)}
            with (folder / "heard.jsonl").open("a") as heard:
                heard.write(json.dumps(answers) + "\n")
            done = time.monotonic() > end and not any("error" in answer for answer in answers.values())
            time.sleep(0.2)


class Site:
    """Answers what is in files."""

    @collab.publish
    def read(self, path):
        file = Path(os.environ["PRIVATE"]) / path
        try:
            text = file.read_text()
        except OSError as error:
            text = type(error).__name__
        return {"text": text, "user": os.getuid(), "process": os.getpid()}
