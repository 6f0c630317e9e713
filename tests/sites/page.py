"""What docs/deploying.md tells administrators to write and to type, so that tests do just that."""

from __future__ import annotations

import configparser
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
ADMIN = "admin@hearts.org"


def block(language: str, about: str) -> str:
    """The one block of a language with these words in it."""
    [found] = [text for text in re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.M | re.S) if about in text]
    return found


def project(server: str, port: int, sites: Sequence[str]) -> dict:
    """The page's ``project.yml``, with another server and other sites."""
    import yaml  # which comes with FLARE

    told = yaml.safe_load(block("yaml", "participants:"))
    client = next(one for one in told["participants"] if one["type"] == "client")
    others = [one for one in told["participants"] if one["type"] != "client"]
    clients = [{**client, "name": name, "org": name.lower()} for name in sites]
    for one in others:
        if one["type"] == "server":
            one |= {"name": server, "fed_learn_port": port, "admin_port": port}
    return {**told, "participants": [*others, *clients]}


def unit() -> configparser.SectionProxy:
    """What the page's systemd unit says of the service."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str
    parser.read_string(block("ini", "[Service]"))
    return parser["Service"]


def commands(start: str) -> list[list[str]]:
    """The page's commands that begin like this, in words."""
    lines = "\n".join(re.findall(r"^```sh\n(.*?)^```$", TEXT, re.M | re.S)).replace("\\\n", "").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.startswith(start)]


def command(start: str) -> list[str]:
    """The page's one command that begins like this."""
    [found] = commands(start)
    return found


def script(name: str, rounds: int) -> str:
    """The page's ``site.py``, of a site of another name and with another number of rounds."""
    told = block("text", "patients.csv")
    assert told.count("rounds=20,") == 1
    return told.replace('"Hungary"', repr(name)).replace("rounds=20,", f"rounds={rounds},")
