"""The mixing operator out_i = Σ_j w_ij x_j and its companion ⟨a_i, b_j⟩ per edge, each the other's gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch_geometric.utils import scatter

from graphcollab._base.device import beside
from graphcollab._base.errors import ShapeError, UnknownError
from graphcollab.nn.functional import gpu
from graphcollab.nn.functional.compiled import weighted_sums
from graphcollab.nn.functional.kernels import PRODUCTS, choose_product, edge_dot
from graphcollab.nn.functional.structure import Structure, require_one_type, require_plain

FUSED: dict[str, Callable[..., Tensor | None]] = {"compiled": weighted_sums, "triton": gpu.weighted_sums}


def _mixed(x: Tensor, weight: Tensor, structure: Structure, kernel: str | None = None) -> Tensor:
    mixed: Tensor = (_Mix.apply if _recorded(x, weight) else _product)(x, weight, structure, kernel)
    return mixed


def _product(x: Tensor, weight: Tensor, structure: Structure, kernel: str | None) -> Tensor:
    return PRODUCTS[kernel or choose_product(structure, x)](structure, structure.sort(weight), x)


def _products(a: Tensor, b: Tensor, structure: Structure) -> Tensor:
    products: Tensor = (_EdgeProducts.apply if _recorded(a, b) else _dots)(a, b, structure)
    return products


def _dots(a: Tensor, b: Tensor, structure: Structure) -> Tensor:
    return structure.unsort(edge_dot(structure, a, b).to(structure.ptr.device))


def _recorded(*values: Tensor) -> bool:
    """Return whether derivatives with respect to values may be needed, in reverse or (unsupported) forward mode."""
    return forward_ad._current_level >= 0 or (torch.is_grad_enabled() and any(one.requires_grad for one in values))


class _Mix(torch.autograd.Function):
    """Forward: a sparse-dense product. Backward, also differentiable: transposed for x, sampled dense-dense for w."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, structure: Structure, kernel: str | None) -> Tensor:
        ctx.structure, ctx.kernel = structure, kernel
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight)
        return _product(x, weight, structure, kernel)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        to_x = to_weight = None
        if ctx.needs_input_grad[0]:
            structure = ctx.structure
            to_x = _mixed(grad, structure.sort(weight).conj(), structure.transposed, ctx.kernel)
        if ctx.needs_input_grad[1]:
            to_weight = _products(grad, x.conj(), ctx.structure).to(weight.device)
        return to_x, to_weight, None, None


class _EdgeProducts(torch.autograd.Function):
    """Forward: a sampled dense-dense product. Backward: two sparse-dense products, also differentiable."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, structure: Structure) -> Tensor:
        ctx.structure = structure
        ctx.save_for_backward(a, b)
        return _dots(a, b, structure)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (a, b), structure = ctx.saved_tensors, ctx.structure
        to_a = _mixed(b.conj(), grad, structure) if ctx.needs_input_grad[0] else None
        to_b = _mixed(a.conj(), structure.sort(grad), structure.transposed) if ctx.needs_input_grad[1] else None
        return to_a, to_b, None


def mix(
    x: Tensor,
    weight: Tensor,
    edges: Tensor | Structure,
    num_receivers: int | None = None,
    kernel: str | None = None,
    base: Tensor | None = None,
    against: Tensor | None = None,
) -> Tensor:
    r"""Return :math:`y_i = b_i + \sum_{j \to i} w_{ij} (x_j - a_i)` without building messages [E, P].

    A receiver without edges gets its b, whatever its a. Non-finite numbers affect all receivers with an edge from them,
    even one of weight 0: 0 · ∞ is NaN. Derivatives of any order with respect to all rows and weights are supported.

    Args:
        x: The senders' rows, [S, P].
        weight: Weight of every edge's sender at its receiver, [E]; in single precision if rows are in half precision.
        edges: ``edge_index`` [2, E] with sender j in row 0 and receiver i in row 1, or a `Structure`.
        num_receivers: D. Default: S.
        kernel: ``"dense"``, ``"csr"``, ``"scatter"`` (torch-scatter's sums, or PyTorch's if it is not installed) or,
            if the package was built with a compiler, ``"compiled"``, or, if PyTorch was built for GPUs, ``"triton"``.
            Default: see ``choose_product``.
        base: b, one row per receiver, [D, P]. Default: 0.
        against: a, one row per receiver, [D, P]. Default: 0.

    Returns:
        [D, P]. Gradients with respect to ``x`` and ``weight`` are computed only if needed.

    Raises:
        ValueError: If an edge is out of range, shapes are inconsistent, rows have different or non-floating-point data
            types, or the kernel is unknown.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1], [0, 0, 1]])
        >>> mix(torch.tensor([[2.0], [4.0]]), torch.tensor([0.5, 0.5, 1.0]), edge_index).tolist()
        [[3.0], [4.0]]
    """
    rows = [one for one in (x, base, against) if one is not None]
    require_plain(weight, *rows)
    require_one_type(*rows)
    size = len(x), len(x) if num_receivers is None else num_receivers
    structure = edges if isinstance(edges, Structure) else Structure.from_edges(edges, size)
    if kernel is not None and kernel not in PRODUCTS:
        raise UnknownError("kernel", f"unknown kernel {kernel!r}: use one of {sorted(PRODUCTS)}")
    if x.dim() != 2 or len(x) != structure.num_senders:
        raise ShapeError("x", f"x must have shape [{structure.num_senders}, P], got {tuple(x.shape)}")
    if weight.shape != (structure.num_edges,):
        raise ShapeError(
            "weight", f"{structure.num_edges} edges need weights [{structure.num_edges}], got {tuple(weight.shape)}"
        )
    for name, own in {"base": base, "against": against}.items():
        if own is not None and own.shape != (structure.num_receivers, x.shape[1]):
            wanted = [structure.num_receivers, x.shape[1]]
            raise ShapeError(name, f"{name} must have shape {wanted}, got {tuple(own.shape)}")
    if not (x.is_floating_point() or x.is_complex()):
        raise ShapeError(
            "x", f"x must hold floating-point numbers, got {x.dtype}: weights would be rounded to whole ones"
        )
    weight = weight.to(torch.promote_types(x.dtype, torch.float32))
    if len(rows) > 1 and not _recorded(weight, *rows):
        fused = FUSED.get(kernel or choose_product(structure, x))
        together = None if fused is None else fused(structure, structure.sort(weight), x, base, against)
        if together is not None:
            return together
    mixed = _mixed(x, weight, structure, kernel)
    if against is not None:
        if (alone := structure.alone) is not None:  # their a may be infinite
            against = against.masked_fill(beside(alone, against)[:, None], 0)
        total = scatter(structure.sort(weight), beside(structure.receiver, weight), dim_size=structure.num_receivers)
        mixed = torch.addcmul(mixed, against, beside(total[:, None].to(mixed.dtype), mixed), value=-1)
    return mixed if base is None else mixed + base


def edge_products(a: Tensor, b: Tensor, edges: Tensor | Structure) -> Tensor:
    r"""Return :math:`\langle a_i, b_j \rangle` for every edge j → i, [E], without gathering [E, P].

    There is one vector a per receiver, [D, P], and one b per sender, [S, P], of one data type; ``edges`` are as in
    `mix`, and so are devices: products are on the device of the edges. Derivatives of any order are supported.

    Example:
        >>> a, b = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[3.0, 4.0], [5.0, 6.0]])
        >>> edge_products(a, b, torch.tensor([[0, 1], [1, 0]])).tolist()
        [4.0, 5.0]
    """
    return _products(a, b, Structure.between(a, b, edges))
