"""Trial of a module on a few samples before a run: results of the loop, kept attributes, differences of backends."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import torch
from torch import Tensor, nn

from graphcollab._base.errors import ContractError
from graphcollab._base.typing import Embedded
from graphcollab.data.samples import Pool
from graphcollab.data.schedule import Schedule
from graphcollab.engine.attributes import are_plain, attributes_of, changed, equal
from graphcollab.engine.backend import Backend, Key, Work
from graphcollab.engine.guards import LookUps
from graphcollab.engine.loop_backend import LoopBackend
from graphcollab.engine.modules import copy_module, embed_arguments, leaves, no_latents
from graphcollab.engine.objective import Context, Objective, Reads
from graphcollab.engine.optimizer import SGD
from graphcollab.engine.param_spec import shared_tensors
from graphcollab.engine.plan import Plan
from graphcollab.engine.randomness import drawn_since, global_state, keyed_layers
from graphcollab.engine.samples import Batch, Feed
from graphcollab.engine.stack import ParamSpec

Numbers: TypeAlias = dict[str, Tensor]
"""Results of models on their nodes' samples, by name: `JUDGED` in evaluation mode, `TRAINED` in training."""

JUDGED = "loss", "gradient"
STEP, PLAIN_STEP = "parameters after a step", "parameters after a step without momentum"  # each the first step
BUFFERS = "buffers after a step"
TRAINED = "loss in training", "gradient in training", STEP, PLAIN_STEP, BUFFERS
LOSSES = "its loss", "its gradient"
SIZES: tuple[int, ...] = 4, 2  # samples of the two nodes
PLACES = (2, 3, 2, 4), (0, 1, 1, 1)  # positions in the sample: one is repeated; the second node's are padded
ALIKE = 2  # samples of each node, for passes of equal length
MOVED = 0.01  # distance of the second model's parameters from the first's
RATE = 0.1
TOLERANCE = {torch.float64: 1e-7, torch.float32: 1e-4}  # relative to the largest number
COARSE = 0.03  # for other data types
NOISE = 10.0  # errors up to this multiple of the loop's own, relative to double precision, are rounding
MOST_DOUBLED = 2**22  # frozen numbers up to which a copy in double precision is made
FAILURES = RuntimeError, ValueError, TypeError, IndexError, AttributeError
LOOP = Plan("loop", 2, "trial", "never")


class _AskForLatents(Objective):
    """Adds 0 to a loss, but requests the forward pass to latents, as other objectives may do."""

    reads = Reads(latents=True)

    def __call__(self, outputs: Tensor, targets: Tensor, context: Context) -> Tensor:
        return outputs.new_zeros(())


class Trial:
    """Two models of a module, and samples [n, ...]: up to two of one node, then three of another.

    Attributes:
        loop: The loop, which computes each model as plain PyTorch does: its outputs must equal those of the module.
        expected: The results of the loop.
        random: Whether the module or the loss draws random numbers in training; ``noisy``: whether the loss does.
        writes: Whether a forward pass changes parameters.
        kept: Attributes, except numbers and texts, that forward passes change without affecting the next pass.
        filled: Those of them that the first pass fills, for all nodes alike.
        counts: Other changed attributes.
        lookups: Options of trainable embeddings.
    """

    def __init__(self, module: nn.Module, spec: ParamSpec, sample: tuple[Tensor, Tensor], objective: Objective) -> None:
        self.module, self.spec, self.kind = module, spec, type(module).__name__  # the module is only read
        self.inputs, self.targets = sample
        with keyed_layers(1):
            self.embeds = no_latents(module, self.inputs[:2].clone()) is None
        self.loss = objective
        self.objective = objective + _AskForLatents() if self.embeds else objective
        self.random = self.noisy = self.writes = False
        self.lookups = LookUps()
        first = spec.flatten(module)
        second, count = first.clone(), spec.num_parameters
        wave = torch.arange(count, device=first.device, dtype=first.dtype).cos()
        second[:count] += MOVED * wave * (1 + second[:count].abs())
        self.flat = torch.stack([first, second])  # [2, columns]
        self.loop = LoopBackend(module, spec, LOOP)
        before = attributes_of(copy_module(self.loop.module))
        plain = [
            self.passes([r], train, key)[1] for train, key in ((True, 0), (False, 0), (False, 1)) for r in range(2)
        ]
        self.expected = self.numbers(self.loop)
        names = changed(before, now := attributes_of(self.loop.module))
        self.filled = self._require_separate(names) if names else []
        self._require_repeatable(names, plain[2:4], plain[4:])
        self.kept = [name for name in names if not are_plain(name, before, now)]
        self.counts = [name for name in names if name not in self.kept]

    def pick(self, places: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Return copies of the samples at the given positions, repeated if there are fewer."""
        index = torch.tensor(places, device=self.inputs.device) % len(self.inputs)
        return self.inputs[index], self.targets[index]

    def passes(self, models: Sequence[int], train: bool, key: int = 0) -> tuple[nn.Module, Tensor]:
        """Return a copy of the module after plain passes of models over equally long batches, and the last outputs."""
        module = copy_module(self.module)
        module.train() if train else module.eval()
        for r in models:
            self.spec.load_into(module, self.flat[r])
            inputs, targets = self.pick(PLACES[r][:ALIKE])
            with torch.enable_grad(), keyed_layers(key, r, 0), self.lookups:
                before = global_state()
                found = module(inputs, **embed_arguments(self.embeds))
                self.random |= train and drawn_since(before)
                outputs = joined(found)  # a copy, before the loss may write to its inputs
                self._require_own(module, found)
                self._judge(module, found, targets, self._anchor(r))
            now = self.spec.flatten(module)[: self.spec.num_parameters]
            self.writes |= not torch.equal(now, self.flat[r, : len(now)])
        return module, outputs

    def _require_own(self, module: nn.Module, found: Tensor | Embedded) -> None:
        """Raise if outputs depend on trainable tensors that are not parameters of the module."""
        own = {id(parameter) for parameter in module.parameters()}
        for leaf in leaves(found.logits if isinstance(found, Embedded) else found):
            if id(leaf) not in own:
                raise ContractError(
                    "model",
                    f"{self.kind} computes with a tensor {[*leaf.shape]} that is none of its parameters: register it, "
                    "or write a subclass instead of replacing `forward`",
                )

    def _judge(self, module: nn.Module, found: Tensor | Embedded, targets: Tensor, anchor: Tensor | None) -> None:
        """Note whether the loss draws, and raise if it overwrites targets that its gradient needs."""
        named, before = dict(module.named_parameters()), global_state()
        params = [named[name] for name in self.spec.names[: self.spec.num_named_parameters]]
        loss = self.loop.loss(self.objective, params, found, Batch(self.inputs, targets, None, anchor))
        self.noisy |= drawn_since(before)
        self.random |= self.noisy
        try:
            torch.autograd.grad(loss, params, allow_unused=True)
        except RuntimeError as error:
            if targets._version == 0:  # unmodified
                raise
            raise ContractError(
                "loss", f"the loss changes the targets in place, and its gradient needs them: change a copy ({error})"
            ) from error

    def _require_separate(self, names: list[str]) -> list[str]:
        """Return the attributes that only the first pass fills, or raise if passes depend on earlier ones.

        One node's pass, another's, and both are compared on fresh copies, in both modes. A number that outputs do not
        depend on is left to the caller.
        """
        before = attributes_of(self.module)
        for train in (True, False):
            (one, _), (other, alone), (both, beside) = (self.passes(some, train) for some in ([0], [1], [0, 1]))
            first, second, last = map(attributes_of, (one, other, both))
            carried = [name for name in changed(second, last) if not are_plain(name, second, last, before)]
            if carried or not equal(alone, beside):
                self._refuse_memory((carried or changed(second, last) or names)[0])
        filled = set(changed(before, first)) - set(changed(first, last))
        return sorted(name for name in filled if not are_plain(name, first, last))

    def _refuse_memory(self, name: str) -> None:
        raise ContractError(
            f"attribute {name!r}",
            f"{self.kind} keeps something in {name!r} from pass to pass, which nodes would share: make it a buffer",
        )

    def _require_repeatable(self, names: list[str], plain: list[Tensor], other: list[Tensor]) -> None:
        """Raise if the loop gives other results than the module, or than a fresh loop for the second model alone.

        ``plain`` and ``other`` are outputs of the module in evaluation mode, with other random numbers.
        """
        if not all(map(close, plain, other)):
            raise ContractError(
                "model", f"{self.kind} draws random numbers in evaluation mode: let it do so only while `self.training`"
            )
        alone = self.numbers(LoopBackend(self.module, self.spec, LOOP), first=1)
        expected = {name: self.expected[name][-len(one) :] for name, one in alone.items()}
        few = [self.pick(PLACES[r][:ALIKE])[0][None] for r in range(2)]
        judged = [self.outputs(self.loop, slice(r, r + 1), inputs)[0] for r, inputs in enumerate(few)]
        apart = self.differs(alone, expected)
        if apart is None and all(map(close, judged, plain)):
            return
        if names:
            self._refuse_memory(names[0])
        subject, who = ("loss", repr(self.loss)) if apart in LOSSES else ("model", self.kind)
        raise ContractError(
            subject,
            f"two passes of {who} over the same samples differ, since it keeps something, or draws from NumPy, Python, "
            "or in another thread: keep it in a buffer, draw by torch",
        )

    def numbers(self, backend: Backend, first: int = 0) -> Numbers:
        """Compute all results of a backend for the models from the first on, padded where its plan says so."""
        some, objective, count = slice(first, 2), self.objective, self.spec.num_parameters
        inputs, targets = (torch.stack(many) for many in zip(*map(self.pick, PLACES), strict=True))
        each, together = [slice(r, r + 1) for r in range(first, 2)], [some]
        outputs: list[Tensor] = []
        for r in each if backend.padding == "never" else together:
            parts = self.outputs(backend, r, inputs[r, : max(SIZES[r])])
            outputs += [part[:size].flatten() for part, size in zip(parts, SIZES[r], strict=True)]
        pairs = []
        for r in each if objective.reads.alike or backend.padding != "always" else together:
            sizes = torch.tensor(SIZES[r], device=self.flat.device)[:, None]
            width = int(sizes.max())
            inside = torch.arange(width, device=self.flat.device) < sizes
            weight = inside / sizes.to(self.flat.dtype) if len(sizes) > 1 else None
            pairs.append(self.gradient(backend, r, (inputs[r, :width], targets[r, :width]), weight))
        loss, gradient = (torch.cat(pieces) for pieces in zip(*pairs, strict=True))
        state = {"momentum": torch.zeros_like(gradient)}  # after one step it is the gradient
        steps = torch.zeros(2, dtype=torch.int64)[some]
        work = Work(self._feed(some), SGD(lr=RATE, momentum=0.9), objective, state, steps)
        after, state, losses = backend.fit(self.flat[some], work)
        plain = after
        if backend.layers:  # their steps without momentum are compiled
            plain, _, _ = backend.fit(self.flat[some], replace(work, optimizer=SGD(lr=RATE), state={}))
        trained = losses[0], state["momentum"], after[:, :count], plain[:, :count], after[:, count:]
        found = {"outputs": torch.cat(outputs), "loss": loss, "gradient": gradient}
        return found | dict(zip(TRAINED, trained, strict=True))

    def _feed(self, rows: slice) -> Feed:
        """Return the samples as the batches of one local step."""
        index = torch.tensor(PLACES[rows], device=self.inputs.device)[:, None] % len(self.inputs)
        sizes, nodes = torch.tensor(SIZES[rows])[:, None], torch.arange(2)[rows]
        schedule = Schedule(index, sizes, torch.ones_like(nodes))
        pool = Pool(self.inputs.clone(), self.targets.clone())
        return Feed(pool, index, schedule, nodes, 0, 0, anchor=self._anchor(rows))

    def _anchor(self, rows: slice | int) -> Tensor | None:
        return self.flat[rows, ..., : self.spec.num_parameters] if self.objective.reads.anchor else None

    def outputs(self, backend: Backend, rows: slice, inputs: Tensor) -> Tensor:
        """Return outputs [r, m, ...] of models on inputs [r, m, ...], concatenated with latents, if any."""
        flat, inputs = self.flat[rows], inputs.clone()
        parts = backend.embed(flat, inputs) if self.embeds else (backend.predict(flat, inputs),)
        return torch.cat([part.reshape(*part.shape[:2], -1) for part in parts], 2)

    def gradient(
        self, backend: Backend, rows: slice, batch: Sequence[Tensor], weight: Tensor | None, key: Key | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return losses [r] and gradients [r, P] of models on samples [r, m, ...], in training mode with a key."""
        inputs, targets = (values.clone() for values in batch)
        more = weight, self.objective, self._anchor(rows), key
        return backend.gradient(self.flat[rows], inputs, targets, *more)[:2]

    def difference(self, backend: Backend) -> str | None:
        """Return a difference between a backend and the loop, such as ``"its gradient ('weight')"``, or None.

        It compares outputs, losses and gradients in both modes, and models with their buffers after a step, on two
        nodes' batches of unequal length; modules that are random in training only if the backend draws node by node.
        """
        found = self.numbers(backend)
        judged = JUDGED if self.noisy else ()  # a loss that draws is keyed in training only
        trained = () if backend.by_node or not self.random else TRAINED
        found = {name: one for name, one in found.items() if one.numel() and name not in (*judged, *trained)}
        apart = self.differs(found, self.expected)
        if apart is None or self.random or (exact := self._in_double()) is None:
            return apart
        noise = {name: NOISE * float((self.expected[name] - exact[name]).abs().max()) for name in found}
        return self.differs(found, self.expected, noise)

    def _in_double(self) -> Numbers | None:
        """Compute all in double precision; None if the module does not support or need it, or has a large base."""
        frozen = sum(tensor.numel() for tensor in shared_tensors(self.module).values())
        if self.flat.dtype == torch.float64 or frozen > MOST_DOUBLED:
            return None
        twin = copy.copy(self)
        twin.flat = self.flat.double()
        twin.inputs, twin.targets = (
            part.double() if part.is_floating_point() else part for part in (self.inputs, self.targets)
        )
        try:
            return twin.numbers(LoopBackend(copy_module(self.module).double(), self.spec, LOOP))
        except (RuntimeError, TypeError, ValueError):
            return None

    def differs(self, found: Numbers, expected: Numbers, noise: Mapping[str, float] | None = None) -> str | None:
        """Name the first result, and the parameter or buffer, that differs by more than noise, or return None."""
        for name, one in found.items():
            if apart := self._apart(name, one, expected[name], (noise or {}).get(name, 0.0)):
                return apart
        return None

    def _apart(self, name: str, one: Tensor, other: Tensor, noise: float) -> str | None:
        """Name a result in which a parameter or buffer differs; buffers are compared on their own scale."""
        spec, count = self.spec, self.spec.num_named_parameters
        if name == BUFFERS:
            parts = (values.split(spec.sizes[count:], 1) for values in (one, other))
            names = (own for own, a, b in zip(spec.names[count:], *parts, strict=True) if not close(a, b, noise))
            return next((f"its {name} ({own!r})" for own in names), None)
        if close(one, other, noise):
            return None
        if one.dim() < 2:
            return f"its {name}"
        column = int(torch.nan_to_num((one - other).abs(), nan=torch.inf).max(0).values.argmax())
        ends = torch.tensor(spec.sizes).cumsum(0)
        return f"its {name} ({spec.names[int((ends > column).int().argmax())]!r})"


def joined(found: Tensor | Embedded) -> Tensor:
    """Concatenate outputs and latents, if any: [n, ...]."""
    parts = tuple(found) if isinstance(found, Embedded) else (found,)
    return torch.cat([part.detach().reshape(len(part), -1) for part in parts], 1)


def close(one: Tensor, other: Tensor, noise: float = 0.0) -> bool:
    """Return whether numbers are equal up to rounding; overflow in both, NaN or infinite, counts as equal."""
    largest = float(torch.nan_to_num(one.detach().abs(), nan=0.0, posinf=0.0).max()) if one.numel() else 0.0
    apart = (one - other).abs().masked_fill((one == other) | ~(one.isfinite() | other.isfinite()), 0.0)
    return bool((apart <= max(TOLERANCE.get(one.dtype, COARSE) * max(largest, 1e-3), noise)).all())
