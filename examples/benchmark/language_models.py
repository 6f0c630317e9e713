"""Times local steps of adapters over one frozen language model, against PEFT's own way: `set_adapter`, node by node.

All nodes have LoRA adapters over one base with random weights, in the shape of GPT-2 or Llama. The peer is one PEFT
model with an adapter for every node, each with an AdamW of PyTorch's; nodes take their steps one after the other. Both
get the same batches. First they take a step without dropout, after which their adapters must agree to 1e-4; then they
are timed with the dropout of the paper, 0.1.
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
from graphcollab.engine import AdamW, Engine, LocalSteps, Rows
from graphcollab.engine.randomness import keyed_layers
from graphcollab.llm import build_lora, perplexity, token_loss
from graphcollab.llm._libraries import peft, transformers
from graphcollab.stack import ParamSpec, Stacks
from graphcollab.tasks import Pool, Split, make_schedule
from graphcollab.threads import same_threads
from graphcollab.train import build_modules
from graphcollab.train.run import choose_threads

VOCABULARY, DROPOUT, LR = 2048, 0.1, 2e-3
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
    count = args.nodes * args.steps * args.batch
    blocks = torch.randint(VOCABULARY, (count, args.context + 1), generator=torch.Generator().manual_seed(0))
    split = Split("all", torch.arange(count), torch.arange(0, count + 1, args.steps * args.batch))
    pool = Pool(blocks, torch.zeros(count), torch.full((count,), float(args.context)).double())
    return Tasks({"all": pool}, {"train": split}, loss=token_loss, metric=perplexity).to(args.device)


def ours(base: Any, tasks: Tasks, steps: LocalSteps, dropout: float, args: argparse.Namespace) -> tuple[Any, Any, int]:
    """Return the local steps of all nodes, what they start from, and the threads that are chosen for them."""
    module = build_modules(lambda: build_lora(base, dropout=dropout), 0)[0].to(args.device)
    spec = ParamSpec.from_module(module)
    engine = Engine(tasks, [module], [spec], backend=args.backend)
    models = Stacks.single(spec, spec.flatten(module).expand(args.nodes, -1))
    print(f"  {engine.plans[0]}")
    call = partial(engine.fit, Rows.own(models), steps, seed=0, round_=0)
    return call, module, choose_threads([module], engine.plans)


def theirs(base: Any, tasks: Tasks, module: Any, steps: LocalSteps, args: argparse.Namespace) -> Callable[[], Any]:
    """Return the same by one PEFT model with an adapter for every node, which returns the adapters."""
    library, config = peft(), module.model.active_peft_config
    model = library.PeftModelForCausalLM(base, config, adapter_name="0")
    for k in range(args.nodes):
        if k:
            model.add_adapter(str(k), config)
        start = library.get_peft_model_state_dict(module.model)
        library.set_peft_model_state_dict(model, start, adapter_name=str(k))
    named = list(model.named_parameters())
    own = [[p for name, p in named if "lora_" in name and name.endswith(f".{k}.weight")] for k in range(args.nodes)]
    optimizers = [torch.optim.AdamW(p, lr=LR, weight_decay=0.0) for p in own]
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


def compare(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Check that both take the same step, and time them."""
    with keyed_layers(0):
        tasks, base = make_tasks(args), make_base(name, args.context).to(args.device)
    once = LocalSteps(batch_size=args.batch, steps=1, optimizer=AdamW(lr=LR, weight_decay=0.0))
    call, module, _ = ours(base, tasks, once, 0.0, args)
    mine, other = call().models.tensors[0], torch.stack(theirs(make_copy(base), tasks, module, once, args)())
    apart = float((mine - other).abs().max())
    print(f"  after a step adapters are {apart:.1e} apart")
    if not apart < 1e-4:
        raise RuntimeError("the two take different steps")
    steps = LocalSteps(batch_size=args.batch, steps=args.steps, optimizer=AdamW(lr=LR, weight_decay=0.0))
    call, module, threads = ours(base, tasks, steps, DROPOUT, args)
    with same_threads(args.threads or threads):
        contenders = {"graphcollab": call, "set_adapter": theirs(make_copy(base), tasks, module, steps, args)}
        timed = interleave(contenders, args.repeats, args.device)
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
