"""What does a node's adapter over a frozen base cost in memory? Peaks of whole runs with 2, 16 and 128 nodes.

Nodes train adapters of rank 24 in six layers over one frozen base of 25 million parameters (96 MiB), hear all others,
are evaluated and saved in every round (DPSGD with AdamW, batches of 10). Every run has a process of its own, of which
the resident memory is measured: before the run, when base and samples are there, and at its peak. If there were a copy
of the base anywhere, the peak would be 96 MiB higher; if every node had one, 14 times that between 2 and 16 nodes.

    shared_base.py --nodes 2 16 128
    shared_base.py --nodes 2 16 --model llama --width 512 --rank 4 --backends loop shared

With `--model llama` it is a random language model of twelve blocks with LoRA adapters in all linear layers, on two
blocks of 32 tokens at a time (FedAvg with AdamW): the peak then has activations, too.
"""

# ci: --nodes 2 4 --width 64 --rank 2 --json $OUT/shared_base.json
# ci: --nodes 2 3 --model llama --width 64 --rank 2 --backends loop shared

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from _measure import arguments, forget_peak, machine, peak, write  # type: ignore
from torch import Tensor, nn

from graphcollab import Method, Tasks, run
from graphcollab.methods import dpsgd, fedavg
from graphcollab.train import Checkpoint, Compute

INPUTS, CLASSES, LAYERS, SAMPLES = 64, 10, 6, 30
TOKENS, BLOCK = 300, 32  # of a language model
MIB = 2**20


class Adapted(nn.Module):
    """A frozen linear layer with a trained detour of low rank."""

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.base = nn.Linear(width, width).requires_grad_(False)
        self.down, self.up = nn.Linear(width, rank, bias=False), nn.Linear(rank, width, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the layer's output and the detour's, after ReLU."""
        return torch.relu(self.base(inputs) + self.up(self.down(inputs)))


def make_model(width: int, rank: int) -> nn.Module:
    """Return the base with fresh adapters; its first and its last layer are frozen, too."""
    first, last = nn.Linear(INPUTS, width), nn.Linear(width, CLASSES)
    layers = [Adapted(width, rank) for _ in range(LAYERS)]
    return nn.Sequential(first.requires_grad_(False), *layers, last.requires_grad_(False))


def of_layers(nodes: int, width: int, rank: int) -> tuple[Tasks, nn.Module, Method]:
    """Return what is played with plain layers."""
    draw = torch.Generator().manual_seed(0)
    pairs = [(torch.randn(SAMPLES, INPUTS, generator=draw), torch.arange(SAMPLES) % CLASSES) for _ in range(nodes)]
    tasks = Tasks.from_samples(pairs).hold_out(0.3, 0, into="test")
    return tasks, make_model(width, rank), dpsgd(steps=4, batch_size=10, optimizer="adamw", lr=1e-3)


def of_llama(nodes: int, width: int, rank: int) -> tuple[Tasks, nn.Module, Method]:
    """Return what is played with a language model."""
    from graphcollab.llm import build_lora, perplexity, token_loss
    from graphcollab.llm.base import transformers

    library, sizes = transformers(), {"hidden_size": width, "intermediate_size": 3 * width, "num_attention_heads": 8}
    config = library.LlamaConfig(vocab_size=TOKENS, max_position_embeddings=BLOCK, num_hidden_layers=12, **sizes)
    base = library.LlamaForCausalLM(config)
    draw = torch.Generator().manual_seed(0)
    pairs = [(torch.randint(TOKENS, (SAMPLES, BLOCK + 1), generator=draw), torch.zeros(SAMPLES)) for _ in range(nodes)]
    tasks = Tasks.from_samples(pairs, loss=token_loss, metric=perplexity).hold_out(0.3, 0, into="test")
    return tasks, build_lora(base, rank=rank), fedavg(part="lora", steps=4, batch_size=2, optimizer="adamw", lr=1e-3)


MODELS = {"layers": of_layers, "llama": of_llama}


def measure(kind: str, backend: Any, nodes: int, width: int, rank: int, device: str) -> dict[str, float]:
    """Play a run in this process; return what it takes in MiB."""
    torch.set_num_threads(1)
    tasks, model, method = MODELS[kind](nodes, width, rank)
    learns = sum(one.numel() for one in model.parameters() if one.requires_grad)
    frozen = sum(one.numel() for one in model.parameters() if not one.requires_grad)
    before = forget_peak(device)
    with tempfile.TemporaryDirectory() as folder:
        run(
            method,
            tasks,
            model,
            rounds=3,
            compute=Compute(backend=backend, device=device),
            checkpoint=Checkpoint(folder, every=1),
        )
        stored = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    found = {"base": 4 * frozen, "adapter": 4 * learns, "before": before, "peak": peak(device), "stored": stored}
    return {name: value / MIB for name, value in found.items()}


def in_a_fresh_process(*given: Any) -> dict[str, float]:
    """Measure in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--only", *map(str, given)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the run {given} failed:\n{done.stderr}")
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


def main() -> None:
    """Measure all numbers of nodes with all backends."""
    parser = arguments(__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[2, 16, 128])
    parser.add_argument("--backends", nargs="+", choices=["vmap", "loop", "shared"], default=["vmap", "loop", "shared"])
    parser.add_argument("--model", choices=[*MODELS], default="layers", help="what is frozen (default: %(default)s)")
    parser.add_argument("--width", type=int, default=2048, help="of the base's layers")
    parser.add_argument("--rank", type=int, default=24, help="of the adapters")
    args = parser.parse_args()
    print(machine(args.device))
    results: dict[str, Any] = {}
    for backend in args.backends:
        found = {
            k: in_a_fresh_process(args.device, args.model, backend, k, args.width, args.rank)
            for k in sorted(args.nodes)
        }
        few = min(found)
        for nodes, one in found.items():
            line = f"{backend:6} {nodes:4} nodes   base {one['base']:6.1f} MiB   adapter {one['adapter']:5.2f} MiB"
            line += f"   before {one['before']:6.1f}   peak {one['peak']:7.1f} MiB   on disk {one['stored']:7.1f} MiB"
            if nodes > few:
                one["adapters_per_node"] = (one["peak"] - found[few]["peak"]) / (nodes - few) / one["adapter"]
                line += f"   {one['adapters_per_node']:.1f} adapters for each node more than {few}"
            print(line, flush=True)
        results[backend] = {nodes: {name: round(v, 2) for name, v in one.items()} for nodes, one in found.items()}
    write(results, args)


if __name__ == "__main__":
    if "--only" in sys.argv:
        device, kind, backend, *sizes = sys.argv[2:]
        nodes, width, rank = map(int, sizes)
        print(json.dumps(measure(kind, backend, nodes, width, rank, device)))
    else:
        main()
