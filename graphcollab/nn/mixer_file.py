"""Files of mixers: packed encoders and their description."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, cast, get_args

from torch import Tensor

from graphcollab._base.errors import DamagedError, FormatError, MissingFileError
from graphcollab._base.files import write_whole
from graphcollab._base.packed import damage_of, is_packed, pack, read_packed, unpack

Score: TypeAlias = Literal["cosine", "scaled", "product"]
Own: TypeAlias = Literal["gate", "largest", "softmax"]


class Form(TypedDict, total=False):
    """The form of the computation with encoders; see `MixingEncoder`."""

    score: Score
    normalize: bool
    own: Own


KIND, VERSION = "graphcollab-mixer", 4
FORMS = {"score": get_args(Score), "own": get_args(Own), "normalize": (True, False)}
BROUGHT = Path(__file__).with_name("pretrained")  # the bundled mixers and their cards


def mixer_cards() -> dict[str, str]:
    """Return the cards of the bundled mixers, by name: their training data, and where they helped.

    Example:
        >>> list(mixer_cards())
        ['digits', 'fashion_mnist', 'parkinsons']
    """
    return {card.stem: card.read_text(encoding="utf-8") for card in sorted(BROUGHT.glob("*.md"))}


def write_mixer(
    path: str | Path, widths: Mapping[str, int], form: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> Path:
    """Write encoders to one file atomically."""
    content = {"widths": dict(widths), "form": dict(form)}
    return write_whole(path, pack(KIND, VERSION, content, tensors))


def read_mixer(path: str | Path) -> tuple[dict[str, int], Form, dict[str, Tensor]]:
    """Return widths, form and tensors of a mixer's file, or of a bundled mixer, by name."""
    given, path = path, Path(path)
    if not path.is_file() and given in (names := list(mixer_cards())):
        path = BROUGHT / f"{given}.safetensors"
    if not path.is_file():
        raise MissingFileError(
            f"file {path}", f"there is no mixer at {path}: save one, or take one of {', '.join(map(repr, names))}"
        )
    subject = f"file {path}"
    if not is_packed(path):
        raise FormatError(subject, f"{path} is not a mixer, or is damaged at its beginning: give one that was saved")
    with damage_of(subject):
        packed = read_packed(path)
    content, tensors = unpack(packed, KIND, VERSION, subject)
    with damage_of(subject):
        widths = {str(layer): int(width) for layer, width in content["widths"].items()}
        form = dict(content["form"])
    if problem := misform(form) or _misfit(widths, form, tensors):
        raise DamagedError(subject, f"{path} is damaged: {problem}")
    return widths, cast(Form, form), tensors


def misform(form: Mapping[str, Any]) -> str | None:
    """Describe what is missing or wrong in the description of the form."""
    for name, allowed in FORMS.items():
        if type(form.get(name)) is not type(allowed[0]) or form[name] not in allowed:
            return f"its {name} must be one of {', '.join(map(repr, allowed))}, got {form.get(name)!r}"
    unknown = sorted(set(form) - set(FORMS))
    return f"its form has {unknown[0]!r}, which is not known" if unknown else None


def _misfit(widths: Mapping[str, int], form: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str | None:
    """Describe a tensor of the encoders that is missing, superfluous, or inconsistent in size with the others."""
    biased = any(name.rpartition("/")[2].startswith("bias") for name in tensors)
    sizes: dict[str, list[int]] = {}
    for layer, width in widths.items():
        names = [f"{layer}/{kind}" for kind in ("weight1", "weight2", *(("bias1", "bias2") if biased else ()))]
        for name in names:
            if name not in tensors:
                return f"{name} is missing"
        for name in names[:2]:
            if tensors[name].dim() != 2:
                return f"{name} must be a matrix, got {list(tensors[name].shape)}"
        hidden, out = (len(tensors[name]) for name in names[:2])
        sizes |= dict(zip(names, ([hidden, width], [out, hidden], [hidden], [out]), strict=False))
    sizes |= {"temperature": []} if form["score"] == "cosine" else {}
    sizes |= {"gate": []} if form["own"] == "gate" else {}
    for name, size in sizes.items():
        if name not in tensors:
            return f"{name} is missing"
        if not tensors[name].is_floating_point():
            return f"{name} must hold real numbers, got {tensors[name].dtype}"
        if list(tensors[name].shape) != size:
            return f"{name} must be {size}, got {list(tensors[name].shape)}"
    extra = sorted(set(tensors) - set(sizes))
    return f"{extra[0]} belongs to no encoder" if extra else None
