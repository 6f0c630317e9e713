"""The row primitives ``fit``, ``grad``, ``batch_gradient``, ``predict`` and ``loss`` that all methods build on."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from graphcollab._base.device import beside, consecutive, pick
from graphcollab._base.memory import keep_heap, new_rows
from graphcollab.data.schedule import local_steps, make_schedule
from graphcollab.data.tasks import Tasks
from graphcollab.engine.backend import Backend, Work, batch_groups
from graphcollab.engine.choice import backend_of, check_plan, make_plan
from graphcollab.engine.footprint import Footprints
from graphcollab.engine.losses import ignored_target, objective_of
from graphcollab.engine.objective import Context, Objective, require_weighted
from graphcollab.engine.optimizer import LocalSteps
from graphcollab.engine.plan import Plan
from graphcollab.engine.rows import Fitted, Outputs, Rows, entries, in_order
from graphcollab.engine.samples import Feed, copied, few_samples, in_mean, take_samples, weights_of
from graphcollab.engine.split_gradients import SplitGradients
from graphcollab.engine.stack import ParamSpec, Stacks
from graphcollab.engine.standing import Replays, StandingBatches
from graphcollab.engine.views import Views


class Engine:
    """Computation with rows, pairs of parameters and the node whose data they use.

    Losses and their gradients are weighted means if samples have weights. In a batch, the weight of a sample, scaled to
    1 on average over the node's training samples, is divided by the number of samples in the batch.

    Parameters of rows are created, and gradients reduced, one chunk at a time under a memory budget, so neither need
    exist as [R, P] when R is the number of edges. Activations of samples have a memory budget, too (``footprint``).

    Args:
        tasks: The nodes' data.
        modules: One module per architecture, in the order of the stacks.
        specs: Their columns.
        backend: ``"auto"``, ``"vmap"``, ``"loop"`` or ``"shared"``. Default: chosen by kinds of layers.
        chunk: Rows at a time. Default: chosen by size.
        microbatch: Samples of a row at a time in training. Default: chosen by size.
        plans: Stored plans to reuse instead of choosing new ones; they are checked against the modules.
        autocast: Compute forward passes in bfloat16. If plans are given, they determine this.

    Attributes:
        initial: The first architecture's model as initialized, [P]: the model at the start of a run, in every process.
        replays: Other computations that are the same in every round.
        ignored: The target that the tasks' loss ignores, if known.
    """

    def __init__(
        self,
        tasks: Tasks,
        modules: Sequence[nn.Module],
        specs: Sequence[ParamSpec],
        *,
        backend: str = "auto",
        chunk: int | None = None,
        microbatch: int | None = None,
        plans: Sequence[Plan] | None = None,
        autocast: bool = False,
    ) -> None:
        keep_heap()
        self.tasks = tasks
        self.objective = objective_of(tasks)
        self.ignored = ignored_target(self.objective)
        if tasks.weighted:
            require_weighted(self.objective)
        sample, pairs = few_samples(tasks), list(zip(modules, specs, strict=True))
        if plans is None:
            how = backend, chunk, autocast, microbatch
            plans = [make_plan(module, spec, sample, self.objective, *how) for module, spec in pairs]
        else:
            for plan, (module, spec) in zip(plans, pairs, strict=True):
                check_plan(plan, module, spec, sample, self.objective)
        self.initial = specs[0].flatten(modules[0])
        self.plans, planned = tuple(plans), zip(plans, pairs, strict=True)
        self.backends: tuple[Backend, ...] = tuple(backend_of(plan, *pair) for plan, pair in planned)
        self._footprints = Footprints(self.backends)
        self._gradients = SplitGradients(self.objective, StandingBatches(tasks))
        self.replays = Replays()

    def on(self, tasks: Tasks) -> Engine:
        """Return this engine for other samples of the same nodes, for one use."""
        other = copy.copy(self)
        other.tasks = tasks
        return other

    def chunks(self, rows: Rows, work: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yield an architecture and a chunk of its rows [r], those with most work [R] first."""
        for s, where in self._stacks(rows):
            for local in self._chunks(s, work[where]):
                yield s, where[local]

    def _stacks(self, rows: Rows) -> list[tuple[int, Tensor]]:
        """Return the rows of every architecture that occurs among the rows."""
        owner = rows.index if rows.index.dim() == 1 else rows.index[:, 0]
        return [(s, where) for s, where, _ in rows.source.locate(owner)]

    def _chunks(self, stack: int, work: Tensor, most: int | None = None) -> Iterator[Tensor]:
        """Cut rows, those with most work first, into chunks of nearly equal length, of at most ``most`` rows."""
        order, chunk = work.argsort(descending=True, stable=True), self.plans[stack].chunk
        pieces = -(-len(order) // min(chunk, most or chunk))
        yield from order.tensor_split(pieces) if pieces else ()

    def _portions(
        self, rows: Rows, split: str, embed: bool, gradients: bool = False
    ) -> Iterator[tuple[int, Tensor, int | None]]:
        """Yield an architecture, a chunk of rows [r], and the maximum number of samples of each at a time."""
        sizes, reads = self.tasks.sizes(split)[rows.node], self.objective.reads
        for s, where in self._stacks(rows):
            padding = self.backends[s].padding
            whole = padding == "never" or (gradients and (padding != "always" or reads.alike or reads.whole))
            longest = int(sizes[where].max()) if len(where) else 0
            most = where[sizes[where].argmax()] if longest else None
            size = None if most is None else self._footprints.of(self.tasks, s, rows, most, split, embed, gradients)
            for local in self._chunks(s, sizes[where], size and size.rows(longest, whole)):
                yield s, where[local], size and size.samples(len(local))

    def fit(
        self,
        rows: Rows,
        steps: LocalSteps,
        *,
        seed: int,
        round_: int,
        objective: Objective | None = None,
        anchor: Stacks | None = None,
        given: Mapping[str, Tensor] | None = None,
        views: Views | None = None,
        slots: Mapping[str, Stacks] | None = None,
        step: Tensor | None = None,
        scale: Mapping[str, Tensor] | None = None,
    ) -> Fitted:
        """Train every row on its node's training samples.

        Args:
            rows: Models to train, with the nodes whose data they use.
            steps: Number of steps, batch size, and optimizer.
            seed: Seed of the run; with the round and the node's identity, it determines the batches.
            round_: Round.
            objective: Objective to minimize. Default: the task's loss.
            anchor: One anchor per row, if the objective needs them.
            given: Additional inputs of the objective, by name, [R, ...] each.
            views: Augmented views of the samples.
            slots: The optimizer's state, by slot. Default: none, as at the start.
            step: Optimizer steps taken before, [R]. Default: 0.
            scale: For some parts of the model, the share s [R] of a row's own model: the part is s h + r with r fixed,
                and h is trained (`RowOptimizer.update`). Default: everything is the row's own.
        """
        objective, optimizer = objective or self.objective, steps.optimizer
        split = self.tasks.splits["train"]
        pool, counts = self.tasks.pools[split.pool], split.sizes[rows.node]
        plan = steps.batch_size, steps.epochs, steps.steps
        planned = local_steps(counts, *plan)
        taken = torch.zeros_like(rows.node) if step is None else step
        layout = [(s, where, self.backends[s]) for s, where in self._stacks(rows)]
        models = [new_rows(rows.source.tensors[s], len(where), b.spec.num_columns) for s, where, b in layout]
        state = {slot: [new_rows(model, *model.shape).zero_() for model in models] for slot in optimizer.slots}
        before = state if slots is None else {slot: many.tensors for slot, many in slots.items()}
        seen: list[tuple[Tensor, Tensor, Tensor]] = []
        for place, (s, where, backend) in enumerate(layout):
            width = backend.spec.num_parameters
            for local in self._chunks(s, planned[where]):
                take = where[local]
                nodes = rows.node[take]
                schedule = make_schedule(counts[take], self.tasks.ids[nodes], seed, round_, *plan)
                index = beside(split.gather(nodes, schedule.position), pool.inputs)
                weight = weights_of(self.tasks, "train", nodes, index, rows.dtype)
                near = None if anchor is None else pick(anchor.tensors[place], local)[:, :width]
                more = entries(given, take, pool.inputs), near, entries(scale, take, pool.inputs)
                feed = Feed(pool, index, schedule, self.tasks.ids[nodes], seed, round_, views, *more, weight)
                flat = rows.parameters(s, take)
                old = {slot: pick(before[slot][place], local)[:, :width] for slot in state}
                lies = consecutive(local)
                out = None if lies is None else models[place][lies]
                new, moved, losses = backend.fit(flat, Work(feed, optimizer, objective, old, taken[take]), out)
                if out is None:
                    models[place][beside(local, new)] = new
                for slot, values in moved.items():
                    state[slot][place][beside(local, new), :width] = values
                seen.append((take, schedule.steps, torch.cat([losses, new.sum(1)[None]])))
        fitted = Stacks(tuple(b.spec for _, _, b in layout), tuple(models), tuple(where for _, where, _ in layout))
        after = {slot: fitted.like(many) for slot, many in state.items()}
        return Fitted(fitted, seen, after, taken + planned)

    def batch_gradient(
        self, rows: Rows, *, seed: int, round_: int, batch_size: int, part: str = "all"
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return every row's loss on one batch of its node's training samples, and its gradient.

        It is the gradient of the first local step of a round: in training mode, for the batch determined by seed, node
        and round; another seed than the run's draws other batches than those of the local steps. Running statistics are
        not modified. All requested gradients exist at once: request a chunk of rows at a time (``plans``). Nodes with
        fewer samples than a batch use all of them; all architectures among the rows must share the part.

        Returns:
            Losses [R], which stay on the device since they are rarely inspected, gradients [R, P_part], and the buffers
            of the models (running statistics) after the pass, [R, columns - P]; None if rows have several
            architectures.
        """
        if not len(rows):
            return *self._nothing(rows, part), None
        split = self.tasks.splits["train"]
        pool = self.tasks.pools[split.pool]
        # One batch per node, however many rows use its data: index [N, B] and sizes [N]
        nodes, place = rows.node.unique(return_inverse=True)
        schedule = make_schedule(split.sizes[nodes], self.tasks.ids[nodes], seed, round_, batch_size, steps=1)
        index, sizes = split.gather(nodes, schedule.position[:, 0]), schedule.size[:, 0]
        own = weights_of(self.tasks, "train", nodes, index, rows.dtype)
        found: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        for s, take in self.chunks(rows, sizes[place]):
            backend, flat = self.backends[s], rows.parameters(s, take)
            together = backend.samplewise and not self.objective.reads.alike
            for some, width, padded in batch_groups(sizes[place[take]], together, flat):
                these = take[some]
                weight = in_mean(None if own is None else pick(own[:, :width], place[these]), padded)
                inputs, targets = (copied(v, index[place[these], :width]) for v in (pool.inputs, pool.targets))
                key = seed, self.tasks.ids[rows.node[these]], round_
                models = pick(flat, some)
                loss, grads, rest = backend.gradient(models, inputs, targets, weight, self.objective, key=key)
                found.append((these, loss, grads[:, backend.spec.columns(part)], rest))
        order, losses, gradients, rests = zip(*found, strict=True)
        buffers = None if len(self._stacks(rows)) > 1 else in_order(rests, order)
        return in_order(losses, order), in_order(gradients, order), buffers

    def grad(
        self, rows: Rows, split: str, *, part: str = "all", reduce: Callable[[Tensor, Tensor], Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return every row's mean loss on a split of its node's data and its gradient.

        The result is losses [R], and gradients [R, P_part], or the output of ``reduce``, which is called for every
        chunk with gradients [r, P_part] and row numbers [r], and returns [r, ...]. The part is as in `batch_gradient`.
        """
        losses = torch.zeros(len(rows), dtype=rows.dtype, device=rows.source.device)
        kept: Tensor | None = None
        for s, take, most in self._portions(rows, split, self.objective.reads.latents, gradients=True):
            given = self.backends[s], rows.parameters(s, take), rows.node[take], split, most
            value, grads = self._gradients.of(self.tasks, *given)
            grads = grads[:, self.backends[s].spec.columns(part)]
            result = grads if reduce is None else reduce(grads, take)
            if len(take) == len(rows) and consecutive(take) is not None:
                return value.cpu(), result.contiguous()
            if kept is None:
                kept = new_rows(result, len(rows), *result.shape[1:])
            place = beside(take, value)
            losses[place], kept[place] = value, result
        if kept is None:  # a process may have no data on which other nodes' models are evaluated
            losses, kept = self._nothing(rows, part)
            kept = kept if reduce is None else reduce(kept, rows.node)
        return losses.cpu(), kept

    def _nothing(self, rows: Rows, part: str) -> tuple[Tensor, Tensor]:
        losses = torch.zeros(0, dtype=rows.dtype, device=rows.source.device)
        columns = rows.source.specs[0].columns(part)
        return losses, losses.new_zeros(0, columns.stop - columns.start)

    def predict(self, rows: Rows, split: str, *, embed: bool = False) -> Iterator[Outputs]:
        """Yield the outputs of all rows on a split of their nodes' data, chunk by chunk, in evaluation mode.

        With ``embed``, also latents and projected latents, for models that have them.
        """
        sizes = self.tasks.sizes(split)[rows.node]
        for s, take, most in self._portions(rows, split, embed):
            if int(sizes[take].max()):
                yield from self._predict(s, rows, take, split, embed, most)

    def _predict(
        self, s: int, rows: Rows, take: Tensor, split: str, embed: bool, most: int | None
    ) -> Iterator[Outputs]:
        """Yield the outputs of one chunk: padded, or one batch length at a time for models that mix samples."""
        backend, spec, counts = self.backends[s], self.backends[s].spec, self.tasks.sizes(split)[rows.node[take]]
        padded, shared = backend.padding != "never", backend.only_reads and not embed
        alike = [counts == count for count in counts.unique().tolist() if count]
        for group in [take] if padded else [take[these] for these in alike]:
            flat = rows.parameters(s, group)
            outputs, targets, shares = [], [], []
            for inputs, target, share in take_samples(self.tasks, rows.node[group], split, not padded, shared, most):
                outputs.append(backend.embed(flat, inputs) if embed else (backend.predict(flat, inputs),))
                targets.append(target)
                shares.append(share)
            logits, *latents = (torch.cat(pieces, 1) for pieces in zip(*outputs, strict=True))
            params = dict(zip(spec.names[: spec.num_named_parameters], spec.views(flat), strict=False))
            sizes = self.tasks.sizes(split)[rows.node[group]]
            weight = torch.cat(shares, 1) if split in self.tasks.mean_weight else None
            yield Outputs(group, logits, torch.cat(targets, 1), sizes, params, spec, weight, *latents)

    def loss(self, rows: Rows, split: str) -> Tensor:
        """Return every row's mean loss on a split of its node's data, [R]; NaN if the node has no such samples."""
        return self.loss_beside(rows, split).cpu()

    def loss_beside(self, rows: Rows, split: str) -> Tensor:
        """Return the same on the device of the rows, without synchronization."""
        out = torch.full((len(rows),), float("nan"), dtype=rows.dtype, device=rows.source.device)
        sizes = self.tasks.sizes(split)[rows.node]
        for s, take, most in self._portions(rows, split, embed=False):
            if not int(sizes[take].max()):
                continue
            given = self.backends[s], rows.parameters(s, take), rows.node[take], split, most
            if (losses := self._gradients.losses(self.tasks, *given)) is not None:
                out[beside(take, out)] = losses
                continue
            for chunk in self._predict(s, rows, take, split, False, most):
                out[beside(chunk.rows, out)] = self.losses_of(chunk)
        return out

    def losses_of(self, chunk: Outputs) -> Tensor:
        """Return the task's loss of outputs already computed, one per row, [r]."""
        if self.objective.reads.alike:
            losses = []
            for r, (o, t, n) in enumerate(zip(chunk.outputs, chunk.targets, chunk.sizes.tolist(), strict=True)):
                own = Context(None, {name: values[r] for name, values in chunk.params.items()}, spec=chunk.spec)
                losses.append(self.objective(o[:n].clone(), t[:n].clone(), own) if n else o.new_full((), torch.nan))
            return torch.stack(losses)
        outputs, targets = chunk.outputs.clone(), chunk.targets.clone()  # a loss may write to them
        return self.objective.rows(outputs, targets, Context(chunk.share, chunk.params, spec=chunk.spec))
