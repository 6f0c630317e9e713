"""`RandomSlopes`: a node's own output layer, shrunk towards the shared one, solved for on request."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.device import beside
from graphcollab._base.errors import UnsupportedError
from graphcollab._base.settings import Positive
from graphcollab.components.env import Env
from graphcollab.components.slots import Judge
from graphcollab.engine import Engine, Objective, ParamSpec, Rows, Stacks
from graphcollab.engine.objective import Context

STEPS, HALVINGS = 50, 30
NEAR, ALIKE = 1e-9, 1e-10  # relative to the loss: largest promised gain of the last step, and rounding tolerance
MOST = 2**25  # entries of the Hessians in memory at once


@dataclass(frozen=True)
class RandomSlopes(Judge):
    r"""Evaluate a node with its model and an output layer that is fitted to its own samples, near the current one.

    .. math::
        \min_{V, a} \; \sum_{i=1}^{n_k} \ell(V z_i + a, y_i)
        + \frac{\lambda}{2} \big( \lVert V - W_k \rVert^2 + \lVert \tilde a - \tilde a_k \rVert^2 \big)

    with :math:`z_i` the inputs of the output layer, :math:`W_k` and :math:`a_k` its weights and biases in the node's
    model, and :math:`\tilde a = a + V \bar z_k` its outputs at the mean of the node's samples, so that slopes can
    change without moving the intercept against its pull. The loss is that of the tasks, summed over training samples
    times their weights: the more samples a node has, the further its slopes may be from those of the others. Newton's
    method solves the problem when the model is requested, and the result does not affect training. See
    `partial_pooling`.

    Args:
        lam: λ, the pull, in samples.

    Raises:
        ValueError: At the start of a run, if models do not end with a linear layer with a bias, or the loss is not a
            mean over samples.
    """

    lam: Positive = 30.0

    def init(self, data: Data, env: Env) -> Data:
        data.x.part("intercept")
        reads = env.engine.objective.reads
        if reads.alike or reads.whole or reads.latents:
            raise UnsupportedError(
                "lam",
                "a node's own slopes are for losses that are means over samples: leave out lam=, or choose another",
            )
        return data

    def __call__(self, data: Data, env: Env) -> Stacks:
        models = super().__call__(data, env)
        tensors = [*models.tensors]
        learns = ~data.isolated & (env.engine.tasks.sizes("train") > 0)
        nodes = env.plane.local(learns.nonzero().flatten())
        for s, where, row in models.locate(nodes) if len(nodes) else ():
            tensors[s] = tensors[s].clone()
            at = beside(row, tensors[s])
            tensors[s][at] = self._fitted(env.engine, models, s, tensors[s][at], nodes[where])
        return models.like(tensors)

    def _fitted(self, engine: Engine, models: Stacks, s: int, flat: Tensor, nodes: Tensor) -> Tensor:
        """Return models [r, columns] of one architecture with the output layers of nodes [r]."""
        spec = models.specs[s]
        layer = _output_layer(spec)
        weight, bias = (flat[:, columns].double() for columns in layer)
        read, targets, share, sizes = _read_by(engine, models, s, flat, nodes, layer)
        weight = weight.view(len(flat), bias.shape[1], -1)  # [r, C, d]
        mean = (read * share[..., None]).sum(1)  # [r, d]
        level = bias + (weight * mean[:, None]).sum(2)  # [r, C]
        read = (read - mean[:, None]) * (share > 0)[..., None]
        # Weights only change along the samples: few samples span fewer directions than there are inputs
        basis = torch.linalg.qr(read.transpose(1, 2)).Q if read.shape[1] < read.shape[2] else None  # [r, d, n]
        along = (lambda values: values) if basis is None else (lambda values: values @ basis)
        read = torch.cat([along(read), torch.ones_like(read[..., :1])], 2)  # [r, n, d' + 1]
        start = torch.cat([along(weight), level[..., None]], 2)  # [r, C, d' + 1]
        per = max(MOST // start[0].numel() ** 2, 1)
        pieces = zip(*(piece.split(per) for piece in (start, read, targets, share, sizes)), strict=True)
        change = torch.cat([self._minimize(engine.objective, *some) for some in pieces]) - start
        moved = change[..., :-1] if basis is None else change[..., :-1] @ basis.transpose(1, 2)
        new = flat.clone()
        new[:, layer[0]] += moved.flatten(1).to(flat.dtype)
        new[:, layer[1]] += (change[..., -1] - (moved * mean[:, None]).sum(2)).to(flat.dtype)
        return torch.where(torch.isfinite(new).all(1, keepdim=True), new, flat)

    def _minimize(
        self, objective: Objective, start: Tensor, read: Tensor, targets: Tensor, share: Tensor, sizes: Tensor
    ) -> Tensor:
        """Return the layers [r, C, d + 1] that minimize the loss plus the pull towards their start."""

        def losses(layers: Tensor, outputs: Tensor) -> Tensor:
            mean = objective.rows(outputs.clone(), targets.clone(), Context(share, {}))  # a loss may write to them
            return sizes * mean + self.lam / 2 * (layers - start).square().sum((1, 2))

        layers, resting = start, torch.zeros_like(sizes, dtype=torch.bool)
        for _ in range(STEPS):
            with torch.enable_grad():
                outputs = torch.einsum("rnd,rcd->rnc", read, layers).requires_grad_()
                now = losses(layers, outputs)
                (slope,) = torch.autograd.grad(now.sum(), outputs, create_graph=True)
                curved = [torch.autograd.grad(one.sum(), outputs, retain_graph=True)[0] for one in slope.unbind(2)]
            now = now.detach()
            gradient = torch.einsum("rnc,rnd->rcd", slope.detach(), read) + self.lam * (layers - start)
            step = self._newton(gradient, torch.stack(curved, 2), read)
            promised = (step * gradient).sum((1, 2))
            size = (~resting & (promised > 0)).to(now.dtype)
            tried, worse = layers, resting
            for _ in range(HALVINGS):
                tried = layers - size[:, None, None] * step
                worse = ~(losses(tried, torch.einsum("rnd,rcd->rnc", read, tried)) <= now + ALIKE * now.abs())
                if not bool(worse.any()):
                    break
                size = torch.where(worse, size / 2, size)
            layers = torch.where(worse[:, None, None], layers, tried)
            resting = resting | ~(promised > NEAR * now.abs())  # this was the node's last step, independent of others
            if bool(resting.all()):
                break
        return layers

    def _newton(self, gradient: Tensor, curved: Tensor, read: Tensor) -> Tensor:
        """Return Newton steps [r, C, d], given the curvature of the loss in the outputs, [r, n, C, C].

        Hessians are summed in single precision, which can only cost additional steps.
        """
        classes, width = gradient.shape[1:]
        short = read.float()
        hessian = gradient.new_empty(len(read), classes, width, classes, width)
        for c in range(classes):
            for e in range(c + 1):
                block = (short * curved[:, :, c, e, None].float()).transpose(1, 2) @ short
                hessian[:, c, :, e] = hessian[:, e, :, c] = block.to(gradient.dtype)
        hessian = hessian.view(len(read), classes * width, -1)
        hessian.diagonal(dim1=1, dim2=2).add_(self.lam)
        solved = torch.linalg.solve_ex(hessian, gradient.flatten(1)).result  # NaN stays with its node
        return solved.view_as(gradient)


def _output_layer(spec: ParamSpec) -> tuple[slice, slice]:
    """Return the columns of the weights and of the biases of the output layer."""
    bias = spec.columns("intercept")
    name = spec.names[spec.num_named_parameters - 1].removesuffix("bias") + "weight"
    place = spec.names.index(name)
    begin = sum(spec.sizes[:place])
    return slice(begin, begin + spec.sizes[place]), bias


def _read_by(
    engine: Engine, models: Stacks, s: int, flat: Tensor, nodes: Tensor, layer: tuple[slice, slice]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the inputs of the output layers on training samples, [r, n, d], targets, shares [r, n] and sizes [r].

    Models whose output layer is replaced by one that picks C of the d numbers return them, so every backend has them.
    """
    weights, bias = layer
    outputs = bias.stop - bias.start
    width = (weights.stop - weights.start) // outputs
    many = -(-width // outputs)  # models for each node
    picks = torch.eye(many * outputs, width, dtype=flat.dtype, device=flat.device).view(many, -1)
    picking = flat.repeat_interleave(many, 0)
    picking[:, weights], picking[:, bias] = picks.repeat(len(flat), 1), 0
    sizes = engine.tasks.sizes("train")[nodes]
    longest = int(sizes.max())
    read = flat.new_zeros(len(picking), longest, outputs, dtype=torch.float64)
    share = read.new_zeros(len(flat), longest)
    targets: Tensor | None = None
    rows = Rows(models.only(s, picking), nodes.repeat_interleave(many), torch.arange(len(picking)))
    for chunk in engine.predict(rows, "train"):
        at = beside(chunk.rows, read)
        most = chunk.outputs.shape[1]
        read[at, :most] = chunk.outputs.double()
        first = at % many == 0
        if targets is None:
            targets = chunk.targets.new_zeros(len(flat), longest, *chunk.targets.shape[2:])
        targets[at[first] // many, :most] = chunk.targets[first]
        share[at[first] // many, :most] = chunk.share[first].double()
    read = read.view(len(flat), many, longest, outputs).transpose(1, 2).flatten(2)[..., :width]
    read = read * (share > 0)[..., None]
    assert targets is not None
    if targets.is_floating_point():
        targets = targets.double()
    return read, targets, share, beside(sizes, read).double()
