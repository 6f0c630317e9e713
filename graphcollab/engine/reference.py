"""Results of plain PyTorch for a module on a few samples, the reference for backends and padding, and kept state."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from graphcollab._base.checks import issue
from graphcollab._base.errors import ContractError
from graphcollab._base.typing import Embedded
from graphcollab.data.samples import Pool
from graphcollab.data.schedule import Schedule
from graphcollab.engine.guards import LookUps, unwritten
from graphcollab.engine.modules import copy_module, embed_arguments, in_training, no_latents
from graphcollab.engine.objective import Context, Objective, Reads
from graphcollab.engine.param_spec import shared_tensors
from graphcollab.engine.randomness import keyed_layers
from graphcollab.engine.samples import Feed
from graphcollab.engine.stack import ParamSpec

Memory: TypeAlias = dict[str, Any]
"""Plain attributes of layers, by name."""
Numbers: TypeAlias = dict[str, Tensor]
"""Results of two models on their nodes' samples, by name: `JUDGED` in evaluation mode, `TRAINED` in training."""

JUDGED = "loss", "gradient"
STEP, PLAIN_STEP = "parameters after a step", "parameters after a step without momentum"  # each the first step
BUFFERS = "buffers after a step"
TRAINED = "loss in training", "gradient in training", STEP, PLAIN_STEP, BUFFERS
SIZES: tuple[int, ...] = 4, 2  # samples of the two nodes
PLACES = (2, 3, 2, 4), (0, 1, 1, 1)  # positions in the sample: one is repeated; the second node's are padded
MOVED = 0.01  # distance of the second model's parameters from the first's
RATE = 0.1
PLAIN = type(None), bool, int, float, str
MOST_DOUBLED = 2**22  # frozen numbers up to which a copy in double precision is made
DEEPEST = 8  # maximum nesting of inspected containers


class _AskForLatents(Objective):
    """Adds 0 to a loss, but requests the forward pass to latents, as other objectives may do."""

    reads = Reads(latents=True)

    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return outputs.new_zeros(())


class Reference:
    """A copy of a module, two models of it, and samples [n, ...]: up to two of one node, then three of another."""

    def __init__(self, module: nn.Module, spec: ParamSpec, sample: tuple[Tensor, Tensor], objective: Objective) -> None:
        self.origin, self.module, self.spec = module, copy_module(module), spec  # the first is only read
        self.kind = type(module).__name__
        self.inputs, self.targets = sample
        with keyed_layers(1):
            self.embeds = no_latents(module, self.inputs[:2].clone()) is None
        self.loss = objective
        self.objective = objective + _AskForLatents() if self.embeds else objective
        self.random = in_training(module, self.pick(PLACES[0])[0], self.embeds)
        self.kept: list[str] = []  # attributes that passes change
        self.lookups = LookUps()
        self.writes = False  # whether a forward pass has changed parameters
        self.noisy = False  # whether the loss draws random numbers
        self.seen: dict[bool, Tensor] = {}  # the second model's outputs by mode
        first = spec.flatten(module)
        second, count = first.clone(), spec.num_parameters
        wave = torch.arange(count, device=first.device, dtype=first.dtype).cos()
        second[:count] += MOVED * wave * (1 + second[:count].abs())
        self.flat = torch.stack([first, second])  # [2, columns]

    def pick(self, places: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Return copies of the samples at the given positions, repeated if there are fewer."""
        index = torch.tensor(places, device=self.inputs.device) % len(self.inputs)
        return self.inputs[index], self.targets[index]

    @property
    def anchor(self) -> Tensor | None:
        """Anchors of the two models, [2, P], if the objective needs them."""
        return self.flat[:, : self.spec.num_parameters] if self.objective.reads.anchor else None

    def batches(self) -> tuple[Tensor, Tensor]:
        """Return inputs [2, 4, ...] and targets [2, 4, ...], the second node's padded."""
        pairs = [self.pick(places) for places in PLACES]
        return torch.stack([inputs for inputs, _ in pairs]), torch.stack([targets for _, targets in pairs])

    def feed(self) -> Feed:
        """Return the same samples as the batches of one local step."""
        index = torch.tensor(PLACES, device=self.inputs.device)[:, None] % len(self.inputs)
        schedule = Schedule(index, torch.tensor(SIZES)[:, None], torch.ones(2, dtype=torch.int64))
        pool, nodes = Pool(self.inputs.clone(), self.targets.clone()), torch.arange(2)
        return Feed(pool, index, schedule, nodes, 0, 0, anchor=self.anchor)

    def numbers(self) -> Numbers:
        """Compute all results by plain PyTorch, one model at a time, without padding."""
        seen, numbers = [], []
        for k in range(2):
            batch = self.pick(PLACES[k][: SIZES[k]])
            outputs, loss, gradient = self.forward(k, batch, train=False)
            trained, step_loss, step = self.forward(k, batch, train=True)
            self.seen = {False: outputs, True: trained}
            after = self.spec.flatten(self.module)  # with the buffers after the training step
            after[: len(step)] -= RATE * step
            seen.append(outputs)
            numbers.append((loss, gradient, step_loss, step, after))
        again, other, _ = self.forward(1, batch, train=False, key=2)
        self.noisy = equal(again, outputs) and not equal(other, loss)
        self.random |= self.noisy
        return self.collect(seen, *map(torch.stack, zip(*numbers, strict=True)))

    def collect(
        self, outputs: Sequence[Tensor], loss: Tensor, gradient: Tensor, step_loss: Tensor, step: Tensor, after: Tensor
    ) -> Numbers:
        """Name the results: outputs [n, ...] of each model, losses [2], gradients [2, P], models [2, columns]."""
        count = self.spec.num_parameters
        found = {"outputs": torch.cat([part.flatten() for part in outputs]), "loss": loss, "gradient": gradient}
        trained = step_loss, step, after[:, :count], after[:, :count], after[:, count:]
        return found | dict(zip(TRAINED, trained, strict=True))

    def forward(
        self,
        model: int,
        batch: tuple[Tensor, Tensor],
        train: bool,
        weight: Tensor | None = None,
        key: int | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return outputs [n, ...], loss and gradient [P] of one of the models on a batch."""
        module = self.spec.load_into(self.module, self.flat[model])
        module.train() if train else module.eval()
        named = dict(module.named_parameters())
        params = {name: named[name] for name in self.spec.names[: self.spec.num_named_parameters]}
        anchors = self.spec.views(self.flat[model])
        anchor = dict(zip(params, anchors, strict=False)) if self.objective.reads.anchor else None
        key = model if key is None else key
        with torch.enable_grad(), keyed_layers(0, key, 0), self.lookups, unwritten(module):
            found = module(batch[0].clone(), **embed_arguments(self.embeds))
            seen = _joined(found)  # a copy, before the loss may write to its inputs
            logits, latent, projection = found if isinstance(found, Embedded) else (found, None, None)
            self.strangers(logits)
            context = Context(weight, params, anchor, latent, projection, spec=self.spec)
            targets = batch[1].clone()
            loss = self.objective(logits, targets, context)
            try:
                grads = torch.autograd.grad(loss, list(params.values()), materialize_grads=True)
            except RuntimeError as error:
                if targets._version == 0:  # unmodified
                    raise
                raise ContractError(
                    "loss",
                    "the loss changes the targets that it is given in place, and its gradient needs them: let it "
                    f"change a copy, targets.clone() ({error})",
                ) from error
        with torch.no_grad():
            now = self.spec.flatten(module)[: self.spec.num_parameters]
            self.writes |= not torch.equal(now, self.flat[model, : len(now)])
        return seen, loss.detach(), torch.cat([(g.to_dense() if g.is_sparse else g).flatten() for g in grads])

    def outputs(self, model: int, inputs: Tensor, train: bool) -> Tensor:
        """Return the outputs [n, ...] of one of the models alone."""
        self.spec.load_into(self.module, self.flat[model]).train(train)
        with torch.set_grad_enabled(train), keyed_layers(0, model, 0):
            return self.run(inputs.clone())

    def run(self, inputs: Tensor) -> Tensor:
        """Return the module's current outputs for inputs [n, ...], concatenated with latents, [n, ...]."""
        return _joined(self.module(inputs, **embed_arguments(self.embeds)))

    def in_double(self) -> Numbers | None:
        """Compute all in double precision; None if the module does not support or need it, or has a large base."""
        frozen = sum(tensor.numel() for tensor in shared_tensors(self.module).values())
        if self.flat.dtype == torch.float64 or frozen > MOST_DOUBLED:
            return None
        sample = tuple(part.double() if part.is_floating_point() else part for part in (self.inputs, self.targets))
        twin = copy.copy(self)
        twin.module, twin.flat = copy_module(self.module).double(), self.flat.double()
        twin.inputs, twin.targets = sample
        try:
            return twin.numbers()
        except (RuntimeError, TypeError, ValueError):
            return None

    def require_repeatable(self, expected: Numbers, train: bool) -> None:
        """Raise if a module gives different numbers in an identical second pass."""
        mode = " in training" if train else ""
        outputs, loss, gradient = self.forward(1, self.pick(PLACES[1][: SIZES[1]]), train, key=1 if train else 2)
        unsure, alike = self.noisy and not train, equal(outputs, self.seen[train])
        if alike and (unsure or equal(gradient, expected[f"gradient{mode}"][1])):
            return
        if alike and not equal(loss, expected[f"loss{mode}"][1]):
            raise ContractError(
                "loss",
                f"two calls of {self.loss!r} with the same outputs and targets differ: it keeps something from call to "
                "call, such as a counter, which nodes would share, or draws random numbers from elsewhere than PyTorch "
                "(NumPy, Python): let it depend on what it is given alone",
            )
        own, subject = self.changed(), "model"
        if own:
            subject = f"attribute {own[0]!r}"
            reason = f"its attribute {own[0]!r} changes from pass to pass: make it a buffer"
        elif train:
            reason = (
                "it keeps something from pass to pass, which nodes would share, or draws random numbers from elsewhere "
                "than PyTorch (NumPy, Python): keep it in a buffer, draw by torch"
            )
        else:
            reason = "it draws random numbers, or keeps something: let it do so only while `self.training`"
        mode = "training" if train else "evaluation"
        raise ContractError(subject, f"two passes of {self.kind} over the same samples differ in {mode} mode: {reason}")

    def changed(self) -> list[str]:
        """Return the plain attributes of layers that passes have changed."""
        return changed(memory_of(self.origin), memory_of(self.module))

    def strangers(self, outputs: Tensor) -> None:
        """Raise if a module's outputs depend on trainable tensors that are not its parameters."""
        own = {id(parameter) for parameter in self.module.parameters()}
        for leaf in leaves(outputs):
            if id(leaf) not in own:
                raise ContractError(
                    "model",
                    f"{self.kind} computes with a tensor of shape {tuple(leaf.shape)} that requires a gradient and is "
                    "none of its parameters, so a copy of the module would not have its own: register it "
                    "(nn.Parameter, nn.ModuleList) or detach it; where `forward` of an instance was replaced by a "
                    "function that calls the old one, write a subclass instead",
                )


def kept_by(reference: Reference) -> list[str]:
    """Return the attributes, except numbers, that forward passes change without affecting the next pass.

    Changed attributes are checked again on fresh copies, in both modes, after one node's pass, another's, and both: a
    ValueError is raised if the second's state or outputs depend on the first. A cache that all nodes fill equally
    causes a warning. A number that outputs do not depend on is left to the caller.
    """
    names, before = reference.changed(), memory_of(reference.origin)
    if not names:
        return []
    for train in (False, True):
        second, outputs = _after(reference, (1,), train)
        both, beside = _after(reference, (0, 1), train)
        carried = [name for name in changed(second, both) if not _is_plain(name, second, both, before)]
        if carried or not equal(outputs, beside):
            name = (carried or changed(second, both) or names)[0]
            raise ContractError(
                f"attribute {name!r}",
                f"{reference.kind} keeps something in its attribute {name!r}, which forward passes change, from pass "
                "to pass, and nodes would share it: make it a buffer (register_buffer), of which every node has its "
                "own, or leave it away",
            )
        first, _ = _after(reference, (0,), train)
        filled = set(changed(before, first)) - set(changed(first, both))
        for name in sorted(name for name in filled if not _is_plain(name, first, both, before)):
            if not train:
                issue(
                    "contract",
                    f"attribute {name!r}",
                    f"{reference.kind} fills {name!r} in its first forward pass and keeps it, and nodes share it: that "
                    "is right only where it is the same for all nodes, which it was for the samples it was tried on",
                )
    return [name for name in names if not _is_plain(name, before, memory_of(reference.module))]


def _after(reference: Reference, models: tuple[int, ...], train: bool) -> tuple[Memory, Tensor]:
    """Return the state of a copy of the module after passes of models over equally long batches, and last outputs."""
    trial = copy.copy(reference)
    trial.module = copy_module(reference.origin)
    for model in models:
        outputs, _, _ = trial.forward(model, reference.pick(PLACES[model][:2]), train)
    return memory_of(trial.module), outputs


def _is_plain(name: str, *memories: Memory) -> bool:
    return all(type(memory.get(name)) in PLAIN for memory in memories)


def _joined(found: Tensor | Embedded) -> Tensor:
    """Concatenate outputs and latents, if any: [n, ...]."""
    parts = tuple(found) if isinstance(found, Embedded) else (found,)
    return torch.cat([part.detach().reshape(len(part), -1) for part in parts], 1)


def leaves(outputs: Tensor) -> Iterator[Tensor]:
    """Yield the tensors in which a gradient of outputs would be accumulated."""
    seen, waiting = set(), [outputs.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if (variable := getattr(node, "variable", None)) is not None:
            yield variable
        waiting.extend(parent for parent, _ in node.next_functions)


def memory_of(module: nn.Module) -> Memory:
    """Return the attributes of layers, except those that every module has."""
    every = vars(nn.Module())
    return {
        f"{prefix}.{name}".removeprefix("."): value
        for prefix, layer in module.named_modules()
        for name, value in vars(layer).items()
        if name not in every
    }


def changed(before: Memory, now: Memory) -> list[str]:
    """Return the names of numbers, texts, tensors and containers of these that have changed."""
    return [name for name in before | now if not _same(before.get(name), now.get(name))]


def _same(one: Any, other: Any, depth: int = 0) -> bool:
    """Compare values; parameters, and values of types that are not inspected, count as equal."""
    if isinstance(one, nn.Parameter) or isinstance(other, nn.Parameter) or depth > DEEPEST:
        return True
    if isinstance(one, Tensor | np.ndarray) and isinstance(other, Tensor | np.ndarray):
        return type(one) is type(other) and equal(torch.as_tensor(one), torch.as_tensor(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key], depth + 1) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        pairs = zip(one, other, strict=False)
        return len(one) == len(other) and all(_same(a, b, depth + 1) for a, b in pairs)
    if isinstance(one, set) and isinstance(other, set):
        return len(one) == len(other)
    known = (*PLAIN, Tensor, np.ndarray, dict, list, tuple, set)
    if isinstance(one, known) and isinstance(other, known):
        return type(one) is type(other) and bool(one == other or one != one)
    return True


def equal(one: Tensor, other: Tensor) -> bool:
    """Return whether tensors are equal up to a GPU's order of summation."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    with torch.no_grad():
        largest = float(torch.nan_to_num(one.abs(), nan=0.0, posinf=0.0).max()) if one.numel() else 0.0
        return torch.allclose(one, other, rtol=0.0, atol=1e-5 * largest, equal_nan=True)
