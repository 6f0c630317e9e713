"""Times local steps of adapters over one frozen language model, against PEFT's own way: `set_adapter`, node by node.

All nodes have LoRA adapters over one base with random weights, in the shape of GPT-2 or Llama. The peer is one PEFT
model with an adapter for every node, each with an AdamW of PyTorch's; nodes take their steps one after the other. Both
get the same batches. First they take three steps without dropout, from adapters of noise that differ between nodes: of
plain gradient descent, which shows how large gradients are, and of AdamW. Their adapters must agree to half a
percent of how far they move. Then they are timed with the dropout of the paper, 0.1.
"""

# ci: --models llama --nodes 2 --batch 2 --context 8 --repeats 1 --json $OUT/language_models.json

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from _measure import arguments, interleave, machine, write  # type: ignore
from torch.nn import functional as F

from graphcollab import Tasks
from graphcollab._base.threads import same_threads
from graphcollab.data.samples import Pool, Split
from graphcollab.data.schedule import make_schedule
from graphcollab.engine import SGD, AdamW, Engine, LocalSteps, Rows, Stacks
from graphcollab.engine.modules import copy_module
from graphcollab.engine.randomness import keyed_layers
from graphcollab.engine.stack import ParamSpec
from graphcollab.llm import build_lora, perplexity, token_loss
from graphcollab.llm.base import peft, transformers
from graphcollab.train.prepare import choose_threads
from graphcollab.train.start import build_modules

VOCABULARY, DROPOUT, LR = 2048, 0.1, 2e-3
CHECKED, LIMIT = 3, 5e-3  # steps that must be alike, to this share of how far adapters move
KINDS: dict[str, tuple[Any, Callable[[Any], torch.optim.Optimizer]]] = {
    "sgd": (SGD(lr=0.01), lambda own: torch.optim.SGD(own, lr=0.01)),
    "adamw": (AdamW(lr=LR, weight_decay=0.0), lambda own: torch.optim.AdamW(own, lr=LR, weight_decay=0.0)),
}
SHAPES: dict[str, dict[str, int]] = {
    "gpt2": {"n_embd": 192, "n_layer": 4, "n_head": 4},
    "llama": {"hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4},
    "smollm2": {
        "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "vocab_size": 49152,
    },
}  # fmt: skip


def make_base(name: str, context: int) -> torch.nn.Module:
    """Return a model with random weights."""
    library = transformers()
    special = {"bos_token_id": None, "eos_token_id": None, "vocab_size": VOCABULARY} | SHAPES[name]
    if name == "gpt2":
        return library.GPT2LMHeadModel(
            library.GPT2Config(n_positions=context, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **special)
        )
    return library.LlamaForCausalLM(library.LlamaConfig(max_position_embeddings=context, **special))


def make_tasks(args: argparse.Namespace) -> Tasks:
    """Give every node random blocks of tokens, a batch for every step."""
    steps = max(args.steps, CHECKED)
    count = args.nodes * steps * args.batch
    blocks = torch.randint(VOCABULARY, (count, args.context + 1), generator=torch.Generator().manual_seed(0))
    split = Split("all", torch.arange(count), torch.arange(0, count + 1, steps * args.batch))
    pool = Pool(blocks, torch.zeros(count), torch.full((count,), float(args.context)).double())
    return Tasks({"all": pool}, {"train": split}, loss=token_loss, metric=perplexity).to(args.device)


def begin(base: Any, dropout: float, noise: float, args: argparse.Namespace) -> tuple[Any, Stacks]:
    """Return a model with adapters, and every node's: those that all begin with, and noise of its own."""
    module = build_modules(lambda: build_lora(base, dropout=dropout), 0)[0].to(args.device)
    spec = ParamSpec.from_module(module)
    draws = torch.randn(args.nodes, spec.num_columns, generator=torch.Generator().manual_seed(1)).to(args.device)
    return module, Stacks.single(spec, spec.flatten(module) + noise * draws)


def ours(tasks: Tasks, module: Any, models: Stacks, steps: LocalSteps, args: argparse.Namespace) -> tuple[Any, int]:
    """Return the local steps of all nodes, and the threads that are chosen for them."""
    engine = Engine(tasks, [module], models.specs, backend=args.backend)
    print(f"  {engine.plans[0]}")
    call = partial(engine.fit, Rows.own(models), steps, seed=0, round_=0)
    return call, choose_threads([module], engine.plans)


def theirs(
    base: Any, tasks: Tasks, module: Any, models: Stacks, steps: LocalSteps, kind: str, args: argparse.Namespace
) -> Callable[[], Any]:
    """Return the same by one PEFT model with an adapter for every node, which returns the adapters."""
    library, config, filled = peft(), module.model.active_peft_config, copy_module(module)
    model = library.PeftModelForCausalLM(base, config, adapter_name="0")
    for k, row in enumerate(models.tensors[0]):
        if k:
            model.add_adapter(str(k), config)
        models.specs[0].load_into(filled, row)
        start = library.get_peft_model_state_dict(filled.model)
        library.set_peft_model_state_dict(model, start, adapter_name=str(k))
    named = list(model.named_parameters())
    own = [[p for name, p in named if "lora_" in name and name.endswith(f".{k}.weight")] for k in range(args.nodes)]
    optimizers = [KINDS[kind][1](p) for p in own]
    split, pool = tasks.splits["train"], tasks.pools["all"]
    schedule = make_schedule(split.sizes, tasks.ids, 0, 0, args.batch, steps=steps.steps)

    def play() -> list[torch.Tensor]:
        model.train()
        for k in range(args.nodes):
            model.set_adapter(str(k))
            for s in range(len(schedule)):
                blocks = pool.inputs[split.of(k)[schedule.position[k, s]]]
                logits = model(input_ids=blocks[:, :-1], use_cache=False).logits
                optimizers[k].zero_grad()
                F.cross_entropy(logits.flatten(0, 1), blocks[:, 1:].flatten()).backward()
                optimizers[k].step()
        return [torch.cat([p.detach().flatten() for p in one]) for one in own]

    return play


def check(base: Any, tasks: Tasks, args: argparse.Namespace) -> dict[str, float]:
    """Check that both take the same steps; return how far apart adapters are, as a share of how far they move."""
    module, models = begin(base, 0.0, 0.05, args)
    apart = {}
    for kind, (optimizer, _) in KINDS.items():
        steps = LocalSteps(batch_size=args.batch, steps=CHECKED, optimizer=optimizer)
        mine = ours(tasks, module, models, steps, args)[0]().models.tensors[0]
        other = torch.stack(theirs(make_copy(base), tasks, module, models, steps, kind, args)())
        moved = (mine - models.tensors[0]).norm(dim=1)
        apart[kind] = float(((mine - other).norm(dim=1) / moved).max())
        print(f"  after {CHECKED} steps of {kind} adapters are {apart[kind]:.1e} of how far they moved apart")
        if not apart[kind] < LIMIT:
            raise RuntimeError(f"the two take different steps of {kind}")
    return apart


def compare(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Check that both take the same steps, and time them."""
    with keyed_layers(0):
        tasks, base = make_tasks(args), make_base(name, args.context).to(args.device)
    apart = check(base, tasks, args)
    steps = LocalSteps(batch_size=args.batch, steps=args.steps, optimizer=KINDS["adamw"][0])
    module, models = begin(base, DROPOUT, 0.0, args)
    call, threads = ours(tasks, module, models, steps, args)
    with same_threads(args.threads or threads):
        other = theirs(make_copy(base), tasks, module, models, steps, "adamw", args)
        timed = interleave({"graphcollab": call, "set_adapter": other}, args.repeats, args.device)
    ratio = timed["set_adapter"].over(timed["graphcollab"])
    print(f"  times as fast as set_adapter, {args.threads or threads} threads: {ratio}")
    return {"ratio": [round(part, 3) for part in ratio], "apart": apart, "threads": args.threads or threads}


def make_copy(base: Any) -> Any:
    """Return a base of its own for the peer, which changes its layers."""
    twin = type(base)(base.config)
    twin.load_state_dict(base.state_dict())
    return twin.to(base.device)


def main() -> None:
    """Measure."""
    parser = arguments(__doc__)
    parser.add_argument("--models", nargs="*", default=["llama", "gpt2"], choices=SHAPES)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--batch", type=int, default=4, help="blocks of a step")
    parser.add_argument("--context", type=int, default=64, help="predicted tokens of a block")
    parser.add_argument("--steps", type=int, default=2, help="local steps of a round")
    parser.add_argument("--backend", default="auto", choices=["auto", "shared", "loop", "vmap"])
    parser.add_argument("--threads", type=int, help="default: as a run chooses")
    args = parser.parse_args()
    print(machine(args.device))
    results = {}
    for name in args.models:
        print(f"{name}, {args.nodes} nodes, {args.batch} blocks of {args.context} tokens")
        results[name] = compare(name, args)
    write(results, args)


if __name__ == "__main__":
    main()
