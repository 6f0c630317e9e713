"""Save the adapters of all nodes as folders that PEFT loads, and load them as models."""

from __future__ import annotations

import copy
import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import save as packed
from torch import nn

from graphcollab._base.checks import own_filter
from graphcollab._base.errors import InvalidTypeError, MismatchError, MissingFileError
from graphcollab._base.files import flush_folder, own_name, write_new
from graphcollab._base.packed import damage_of, pack, read_packed, unpack
from graphcollab._base.settings import checked
from graphcollab.engine.modules import copy_module
from graphcollab.llm.base import DRAWN, head_of, kind_of, peft, shared_copy
from graphcollab.llm.build_lora import Base, read_base
from graphcollab.llm.language_model import LanguageModel, Share, adapter_of
from graphcollab.persistence.folder import require_own
from graphcollab.train.fingerprint import weights_checksum

if TYPE_CHECKING:
    from graphcollab.train import Result

WEIGHTS, CONFIG, ABOUT = "adapter_model.safetensors", "adapter_config.json", "about.safetensors"
KIND, VERSION = "graphcollab-adapter", 3
UNSAFE = re.compile(r'^\.|[\x00-\x1f/\\:*?"<>|%]|[. ]$')  # in folder names, on one system or another


def save_adapters(result: Result, folder: str | Path) -> dict[str, Path]:
    """Write the adapters of every node to its own folder, which ``peft.PeftModel.from_pretrained`` loads.

    Saves the models by which nodes are judged: ``adapter_config.json``, ``adapter_model.safetensors`` and
    ``about.safetensors``, which holds the checksums of these and of the base. The base itself is not saved. Replaces
    existing adapters in the folder, all or none. In a run of several processes all of them call this function, and the
    main process writes; between sites each site writes its own.

    Args:
        result: Result of ``run`` for nodes with a `LanguageModel`.
        folder: Parent of the node folders, which have the nodes' names.

    Returns:
        The folders by node name.

    Raises:
        TypeError: If a node has another model.
        FileExistsError: If the folder holds something else.
    """
    folder, plane = Path(folder), result.env.plane
    if odd := [type(module).__name__ for module in result.modules if not isinstance(module, LanguageModel)]:
        raise InvalidTypeError(
            "result", f"adapters are of a LanguageModel, and nodes have a {odd[0]}: save it by result.save(folder)"
        )
    names = [result.tasks.names[k] for k in (plane.own.tolist() if plane.cross_silo else range(result.tasks.num_nodes))]
    with plane.raise_on_all():
        stacks = result.stacks if plane.cross_silo else plane.whole(result.stacks)
        if plane.cross_silo or plane.is_main:
            require_own(folder, lambda path: (path / ABOUT).is_file())
            part = own_name(folder.absolute())
            part.mkdir(parents=True)
            try:
                _write_all(part, result, stacks, names)
                _put_in_place(part, folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    return {name: folder / _folder_name(name) for name in names}


@checked
def load_adapter(
    base: Base, folder: str | Path, share: Share | None = None, checkpointing: bool = False
) -> LanguageModel:
    """Load a node's adapters, written by `save_adapters`, as a model for further training or prediction.

    Args:
        base: The base of the adapters, which is not modified: a transformers model, its folder, or its name on a hub.
        folder: The node's folder.
        share: The shared matrices, see `LanguageModel`. Default: those shared in training.
        checkpointing: See `LanguageModel`.

    Raises:
        FileNotFoundError: If the folder holds no adapters.
        ValueError: If the adapters were trained over other weights, or the folder is damaged.
    """
    folder = Path(folder)
    told = _read_about(folder)
    model = shared_copy(read_base(base, told["classes"]))
    setattr(model, DRAWN, told["drawn"])
    _require_base(model, told, folder)
    with own_filter("ignore"):  # of deprecations between the two libraries
        loaded = peft().PeftModel.from_pretrained(model, str(folder), is_trainable=True)
    return LanguageModel(loaded, share or told["share"], checkpointing)


def base_checksum(model: nn.Module) -> str:
    """Return the checksum (BLAKE2b) of a base's weights in single precision, with or without adapters.

    A base stored in half precision therefore has the same checksum in whichever precision it is loaded. The checksum
    excludes the head of a classifier, which is trained with the adapters, and weights that `build_lora` or
    `load_adapter` did not find in the loaded folder and initialized at random.

    Args:
        model: A transformers model, a ``peft.PeftModel`` or a `LanguageModel`.
    """
    base: Any = model.model if isinstance(model, LanguageModel) else model
    if hasattr(base, "get_base_model"):
        base = shared_copy(base).unload()  # type: ignore[operator]
    head = tuple(f"{name}." for name in head_of(base)) if kind_of(base) == "classification" else ()
    state = {name: values for name, values in base.state_dict().items() if not name.startswith(head)}
    return weights_checksum({name: v.float() if v.is_floating_point() else v for name, v in state.items()})


def _require_base(model: Any, told: dict[str, Any], folder: Path) -> None:
    found = base_checksum(model)
    if found != told["base"]:
        raise MismatchError(
            "base",
            f"the adapters in {folder} were trained over {told['class']} {told['name']} with checksum "
            f"{told['base'][:16]}…, got {type(model).__name__} with {found[:16]}…: give the same base",
        )


def _write_all(part: Path, result: Result, stacks: Any, names: list[str]) -> None:
    """Write the adapters of some nodes to folders below ``part``, which is not yet visible under its final name."""
    modules: list[Any] = [copy_module(module).eval() for module in result.modules]
    about = [_about(module) for module in modules]
    for name in names:
        spec, row = stacks.row(result.tasks.names.index(name))
        kind = next(k for k, one in enumerate(result.stacks.specs) if one is spec)
        spec.load_into(modules[kind], row)
        place = part / _folder_name(name)
        place.mkdir()
        _write_adapter(place, modules[kind].model, {**about[kind], "node": name})
    flush_folder(part)


def _write_adapter(place: Path, model: Any, about: dict[str, Any]) -> None:
    adapter = adapter_of(model)
    state = peft().get_peft_model_state_dict(model, adapter_name=adapter, save_embedding_layers=False)
    config = copy.copy(model.peft_config[adapter])
    config.inference_mode = True
    config.save_pretrained(str(place))  # its JSON
    tensors = {name: values.detach().cpu().clone() for name, values in state.items()}
    write_new(place / WEIGHTS, packed(tensors, metadata={"format": "pt"}))
    files = {name: _checksum(place / name) for name in (CONFIG, WEIGHTS)}
    write_new(place / ABOUT, pack(KIND, VERSION, {**about, "files": files}, {}))


def _about(module: LanguageModel) -> dict[str, Any]:
    model: Any = module.model
    base = model.get_base_model()
    return {
        "base": base_checksum(module),
        "class": type(base).__name__,
        "name": base.name_or_path,
        "classes": None if module.causal else base.config.num_labels,
        "drawn": [*getattr(base, DRAWN, ())],
        "share": module.share,
    }


def _read_about(folder: Path) -> dict[str, Any]:
    if not (folder / ABOUT).is_file():
        raise MissingFileError(
            f"folder {folder}", f"expected a node's folder written by save_adapters, and {folder} has no {ABOUT}"
        )
    subject = f"folder {folder}"
    with damage_of(subject):
        packed = read_packed(folder / ABOUT)
    told, _ = unpack(packed, KIND, VERSION, subject)
    known = {"base": str, "class": str, "name": str, "share": str, "classes": int | None, "drawn": list}
    with damage_of(subject):
        for name in (CONFIG, WEIGHTS):
            if _checksum(folder / name) != told["files"][name]:
                raise ValueError(f"the checksum of {name} does not fit")
        if wrong := [name for name, one in known.items() if not isinstance(told[name], one)]:
            raise TypeError(f"{wrong[0]} is {told[wrong[0]]!r}")
        return dict(told)


def _checksum(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _folder_name(name: str) -> str:
    return UNSAFE.sub(lambda found: f"%{ord(found[0]):02x}", name)


def _put_in_place(part: Path, folder: Path) -> None:
    before = own_name(folder.absolute())
    if folder.exists():
        os.rename(folder, before)
    os.rename(part, folder)
    flush_folder(folder.absolute().parent)
    shutil.rmtree(before, ignore_errors=True)
