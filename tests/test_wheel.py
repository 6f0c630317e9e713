"""The wheel holds all of the package and nothing else, and works without the clone, extras and a network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DEPENDENCIES = PROJECT["dependencies"]
RUN = re.compile(r"<!-- run -->\n```python\n(.*?)```", re.DOTALL)
SITE = "import sysconfig; print(sysconfig.get_path('purelib'))"
IMPORT_NAMES = {"pillow": "PIL", "scikit-learn": "sklearn"}  # where it is not the package's own


def modules(requirements: list[str]) -> list[str]:
    """Return the names by which requirements are imported; the package's own extras are left out."""
    names = [re.match(r"[\w-]+", requirement)[0] for requirement in requirements]
    return [IMPORT_NAMES.get(name, name.replace("-", "_")) for name in names if name != PROJECT["name"]]


def interpreters() -> list[str]:
    """Return this interpreter, and every other Python from 3.11 on that is on the PATH."""
    this = Path(sys.executable).parent / f"python3.{sys.version_info.minor}"
    named = [path for folder in os.get_exec_path() for path in sorted(Path(folder).glob("python3.*"))]
    recent = [p for p in [this, *named] if re.fullmatch(r"3\.\d\d+", p.name[6:]) and int(p.name[8:]) >= 11]
    return [str(path) for path in {(path.parent.resolve(), path.name): path for path in reversed(recent)}.values()]


def run_process(*command: object, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=600)
    assert not check or done.returncode == 0, f"{command} failed:\n{done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy, so that the clone stays as it is."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    ignore = shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info", "results")
    shutil.copytree(ROOT, copy, ignore=ignore, dirs_exist_ok=True)
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    run_process(*pip, "--wheel-dir", out, copy, cwd=out)
    [found] = out.glob("*.whl")
    return found


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [metadata] = [archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA")]
    package = ROOT / "graphcollab"
    data = [package / "py.typed", package / "data" / "datasets" / "heart_disease.csv"]
    data += [*package.rglob("*.html"), *package.rglob("*.css")]
    data += (package / "nn" / "pretrained").iterdir()
    files = [*package.rglob("*.py"), *data]
    there = {str(path.relative_to(ROOT)) for path in files}
    kernels = {f"graphcollab/{name}.abi3.so" for name in ("engine/_chain", "nn/functional/_rows") if shutil.which("cc")}
    assert {name for name in names if ".dist-info/" not in name} == there | kernels
    assert wheel.name.split("-")[2:4] == ["cp311", "abi3"]  # one wheel for all versions of Python
    assert any(name.endswith("LICENSE") for name in names)
    assert f"Version: {PROJECT['version']}\n" in metadata
    assert "# graphcollab" in metadata  # the README is the page of the package
    assert [name for name in DEPENDENCIES if f"Requires-Dist: {name}\n" not in metadata] == []


WITHOUT = """
import sys

class Without:
    # None in sys.modules would not do: libraries take what is there under the name of pandas for pandas
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in EXTRAS else self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Without, sys.meta_path)
"""


@pytest.mark.parametrize("python", interpreters())
def test_the_ten_lines_run_where_only_the_wheel_is_installed(python: str, wheel: Path, tmp_path: Path) -> None:
    """Dependencies are those that the interpreter has; neither the clone nor the extras can be imported."""
    venv, script = tmp_path / "venv", tmp_path / "ten_lines.py"
    made = run_process(python, "-m", "venv", "--without-pip", venv, cwd=tmp_path, check=False)
    if made.returncode:
        pytest.skip(f"{python} cannot make an environment: {(made.stderr or made.stdout).strip().splitlines()[0]}")
    inside = venv / "bin" / "python"
    # Folders that a .pth file adds are searched, but their own .pth files, such as an editable install's, are not read.
    site = Path(run_process(inside, "-I", "-c", SITE, cwd=tmp_path).stdout.strip())
    (site / "dependencies.pth").write_text(run_process(python, "-I", "-c", SITE, cwd=tmp_path).stdout)
    wanted = modules(DEPENDENCIES)
    find = f"from importlib.util import find_spec; print(*(m for m in {wanted} if not find_spec(m)), sep=', ')"
    if missing := run_process(inside, "-I", "-c", find, cwd=tmp_path).stdout.strip():
        pytest.skip(f"{python} does not have {missing}")

    pip = [sys.executable, "-m", "pip", "--python", inside, "install", "--no-deps", "--no-index", "--no-compile"]
    run_process(*pip, wheel, cwd=tmp_path)
    extras = modules([name for many in PROJECT["optional-dependencies"].values() for name in many])
    before = WITHOUT.replace("EXTRAS", repr(set(extras)))
    after = "import graphcollab\nprint('from', graphcollab.__file__)\n"
    script.write_text(before + RUN.search((ROOT / "README.md").read_text(encoding="utf-8"))[1] + after)
    told = run_process(inside, "-I", script, cwd=tmp_path).stdout
    assert told.startswith("{'mean': ")
    assert f"from {site / 'graphcollab'}" in told
