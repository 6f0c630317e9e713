"""The documentation site: built whole, without a warning or a network, with every public name once."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import zlib
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import pytest

import graphcollab

pytest.importorskip("sphinx", reason="there is no Sphinx: install the extra docs")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LOADED = {"audio", "embed", "iframe", "img", "input", "link", "script", "source", "video"}  # not asked for by a click
BLOCKED = """import socket, runpy, sys
def refuse(*address, **options):
    raise OSError(f"the build asked for {address}")
socket.getaddrinfo = socket.socket.connect = socket.create_connection = refuse
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("site") / "docs"
    command = [sys.executable, "-c", BLOCKED, str(ROOT / "docs" / "site" / "build.py"), "--out", str(out)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-5000:]
    return out, done.stderr


@pytest.fixture(scope="module")
def site(built: tuple[Path, str]) -> Path:
    return built[0]


class Page(HTMLParser):
    """What a page has: anchors, links, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "top"}
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        for name in {"href", "src", "action", "data", "poster"} & found.keys():
            self.links.append(found[name])
            self.loads += [found[name]] * (tag in LOADED)
        self.loads += re.findall(r"url\((.*?)\)", found.get("style", ""))


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_built_without_a_word(built):
    assert built[1] == ""


def test_links_lead_somewhere(site, pages):
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if parts.scheme or parts.netloc:
                continue
            if not there.is_file() or (there in pages and unquote(parts.fragment) not in pages[there].anchors):
                broken.append((path.relative_to(site).as_posix(), link))
    assert broken == []
    assert len(pages) > 60


def test_nothing_is_loaded_from_elsewhere(site, pages):
    loads = [link for page in pages.values() for link in page.loads]
    for sheet in site.rglob("*.css"):
        text = re.sub(r"/\*.*?\*/", "", sheet.read_text(encoding="utf-8"), flags=re.DOTALL)
        loads += re.findall(r"url\(['\"]?(.*?)['\"]?\)", text) + re.findall(r"@import ['\"](.*?)['\"]", text)
    assert len(loads) > len(pages)
    assert [link for link in loads if re.match(r"(https?:)?//", link)] == []


def exported() -> dict[int, set[str]]:
    """By what it is, all names of everything that is exported by packages, and by modules that say what they show."""
    names: dict[int, set[str]] = {}
    for module in ["graphcollab", *(one.name for one in pkgutil.walk_packages(graphcollab.__path__, "graphcollab."))]:
        path = module.split(".")
        loaded = importlib.import_module(module) if not path[-1].startswith("_") else None
        for name in getattr(loaded, "__all__", ()):
            if not isinstance(getattr(loaded, name), ModuleType):
                names.setdefault(id(getattr(loaded, name)), set()).add(f"{module}.{name}")
    return names


def inventory(site: Path) -> Counter[str]:
    """How often every name is documented; those by which it may be called, too, are not counted."""
    *_, packed = (site / "objects.inv").read_bytes().split(b"\n", 4)
    lines = zlib.decompress(packed).decode().splitlines()
    rows = [re.fullmatch(r"(\S+) py:(\w+) (-?\d) (\S+) .*", line) for line in lines]
    return Counter(row[1] for row in rows if row and row[2] != "module" and row[3] != "-1")


def test_every_public_name_is_documented_once(site):
    documented = inventory(site)
    homes = {}
    for names in exported().values():
        for name in {one.rpartition(".")[2] for one in names}:
            same = [one for one in names if one.rpartition(".")[2] == name]
            found = [one for one in same if one in documented]
            assert len(found) == 1, f"{same} are documented as {found}"
            assert documented[found[0]] == 1, f"{found[0]} is documented {documented[found[0]]} times"
            assert found[0].count(".") == min(one.count(".") for one in same)
            homes[found[0]] = names
    assert len(homes) > 250
    assert "graphcollab.run" in homes


def test_every_public_name_says_what_it_is(site, pages):
    text = {path.stem: path.read_text(encoding="utf-8") for path in pages if path.parent.name == "api"}
    said = {}
    for page in text.values():
        for found in re.finditer(r'<dt class="sig[^>]* id="([^"]+)">.*?</dt>\s*<dd>(.*?)</?d[dl]', page, re.DOTALL):
            said[found[1]] = re.sub(r"<[^>]*>|\s", "", found[2])
    names = inventory(site)
    assert len(names.keys() & said.keys()) > 800
    assert [name for name in names if said.get(name) == ""] == []


def test_search_works_from_disk(site):
    webdriver = pytest.importorskip("selenium.webdriver", reason="there is no selenium to drive a browser with")
    waiting = pytest.importorskip("selenium.webdriver.support.ui")
    chromium, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("there is no chromium and chromedriver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(driver)) as browser:
        browser.get((site / "search.html").as_uri() + "?q=grouped_tasks")
        found = "return [...document.querySelectorAll('ul.search li a')].map(a => a.getAttribute('href'))"
        links = waiting.WebDriverWait(browser, 60).until(lambda one: one.execute_script(found))
        assert any(
            link.endswith("api/graphcollab.data.partition.html#graphcollab.data.partition.grouped_tasks")
            for link in links
        )
        assert [line["message"] for line in browser.get_log("browser") if line["level"] == "SEVERE"] == []
        messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    assert asked
    assert {urlsplit(url).scheme for url in asked} <= {"file", "data", "blob"}
