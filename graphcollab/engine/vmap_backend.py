"""The stacked backend for everything that vmap supports: one forward and backward pass for all rows of a chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.func import functional_call, vmap

from graphcollab.engine.backend import Work
from graphcollab.engine.dense_steps import dense_layers, take_dense_steps
from graphcollab.engine.modules import embed_arguments
from graphcollab.engine.objective import Objective
from graphcollab.engine.optimizer import SGD, RowOptimizer
from graphcollab.engine.plan import Plan
from graphcollab.engine.stack import ParamSpec
from graphcollab.engine.stacked import make_chain, stacked_ops, stepping
from graphcollab.engine.stacked_backend import Leaves, StackedBackend


class VmapBackend(StackedBackend):
    """Models of a chunk as stacked tensors: vmap over the forward pass and the loss, one dispatch per operation.

    Randomness inside layers is seeded per chunk, and thus depends on the chunk; other backends key it per node.
    """

    name = "vmap"
    by_node: ClassVar[bool] = False
    together: ClassVar[bool] = True

    def __init__(self, module: nn.Module, spec: ParamSpec, plan: Plan) -> None:
        super().__init__(module, spec, plan)
        self.chain = make_chain(module)
        self.layers = dense_layers(self.chain, spec)
        self.only_reads = self.chain is not None and not self.autocast  # unknown for other modules

    def _fit(self, new: Tensor, work: Work) -> tuple[dict[str, Tensor], Tensor]:
        if self.layers is not None and not self.autocast and not self.graphs:
            found = take_dense_steps(self.layers, new, work.feed, work.optimizer, work.objective)
            if found is not None:
                return {}, found
        return super()._fit(new, work)

    def _forward(self, views: Leaves, inputs: Tensor, embed: bool = False) -> Any:
        if self.chain is not None and not self.autocast and not embed:
            return self.chain({**self.frozen.tensors, **dict(zip(self.spec.names, views, strict=True))}, inputs)

        def one(own: Leaves, samples: Tensor) -> Any:
            named = dict(zip(self.spec.names, own, strict=True))
            return functional_call(self.module, named, (samples,), embed_arguments(embed))

        with stacked_ops(), self._autocast(inputs.device):
            return self._whole(vmap(one, randomness="different")(views, inputs))

    def _moving(
        self, optimizer: RowOptimizer, objective: Objective
    ) -> Callable[[Sequence[Tensor], Tensor], Tensor] | None:
        chain, reads = self.chain, objective.reads
        plain = type(optimizer) is SGD and not optimizer.momentum and self.microbatch is None
        if chain is None or self.layers is None or self.autocast or not plain or reads.whole or reads.latents:
            return None
        step = partial(stepping, chain, 1 - optimizer.lr * optimizer.weight_decay, optimizer.lr)
        return lambda params, inputs: step(dict(zip(self.spec.names, params, strict=True)), inputs)
