"""Adapters that several processes have trained lie in one folder, as if one process had trained them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from graphcollab.llm import save_adapters
from graphcollab.llm.base import peft
from tests.forked import launch
from tests.llm.tiny import gpt
from tests.processes.adapters import play
from tests.processes.test_equal import close
from tests.train.forged import manifest_of

FILES = ["about.safetensors", "adapter_config.json", "adapter_model.safetensors"]


@pytest.mark.slow  # each process loads transformers
def test_every_process_has_all_folders_after_the_call(tmp_path):
    together, alone = tmp_path / "together", tmp_path / "alone"
    done = launch(2, Path(__file__).with_name("adapters.py"), together, tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    expected = save_adapters(play(), alone)
    told = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert [found.pop("here") for found in told] == [["a", "e"], ["b/c", "d"]]
    assert told[0] == told[1] == {name: [str(together / alone.name), FILES] for name, alone in expected.items()}
    assert {place.name for place in together.iterdir()} == {place.name for place in expected.values()} | {"notes.txt"}
    assert not [*tmp_path.glob(".*")]  # nothing half written is left
    tokens = torch.tensor([[2, 5, 9, 4], [3, 8, 1, 1]])
    for name, place in expected.items():
        one, other = (
            peft().PeftModel.from_pretrained(gpt(), folder).eval() for folder in (place, together / place.name)
        )
        weights = {key: values for key, values in one.state_dict().items() if "lora" in key}
        assert weights.keys() == {key for key in other.state_dict() if "lora" in key}
        for key, values in weights.items():
            close(other.state_dict()[key], values, f"{name}: {key}")
        close(other(tokens).logits, one(tokens).logits, name, 1e-5)  # of weights in single precision
        assert manifest_of(together / place.name)["content"]["node"] == name
    refused = [(tmp_path / f"{rank}.error").read_text() for rank in range(2)]
    assert all("holds something else ('notes.txt')" in error for error in refused), refused
    written = {(place / FILES[2]).read_bytes() for place in together.iterdir() if place.is_dir()}
    assert len(written) == len(expected) == 4  # models of their own
