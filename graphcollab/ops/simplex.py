"""Euclidean projection onto probability simplices, many of unequal size at once."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import scatter

__all__ = ["project_simplex"]


def project_simplex(
    values: Tensor, group: Tensor | None = None, num_groups: int | None = None, total: Tensor | None = None
) -> Tensor:
    r"""Return for every group the nearest point of the probability simplex.

    .. math::
        \operatorname*{argmin}_{w} \|w - v\|^2 \quad \text{with } w \ge 0, \; \sum w = m
        \qquad \Rightarrow \qquad w = \max(v - \theta, 0)

    By sorting, as in `Efficient Projections onto the l1-Ball for Learning in High Dimensions (Duchi et al., ICML 2008)
    <https://doi.org/10.1145/1390156.1390191>`_: θ is fixed by the entries above it, which are the largest ones.
    Computed in float64 and divided by its sum in the end, so that groups sum to 1 up to the last bit of ``values``.

    Args:
        values: v, finite numbers.
        group: Group of every entry, for weights of edges their receiver. Default: one group.
        num_groups: Number of groups. Default: one more than the largest. Groups without entries are allowed.
        total: m of every group, [G], not negative. Default: 1.

    Shapes:
        values, group and output: [E].

    Raises:
        ValueError: If a value is not finite, or a total is negative or not finite.

    Example:
        >>> project_simplex(torch.tensor([0.5, 0.75, -0.25])).tolist()
        [0.375, 0.625, 0.0]
        >>> project_simplex(torch.tensor([3.0, 1.0, 1.0]), torch.tensor([0, 1, 1])).tolist()
        [1.0, 0.5, 0.5]
    """
    if not bool(values.isfinite().all()):
        raise ValueError(f"projection needs finite values, entry {int((~values.isfinite()).nonzero()[0])} is not")
    if not len(values):
        return values
    group = torch.zeros_like(values, dtype=torch.int64) if group is None else group
    count = int(group.max()) + 1 if num_groups is None else num_groups
    if total is not None and not bool(((total >= 0) & total.isfinite()).all()):
        raise ValueError(
            f"totals must be finite and not negative, got {total.min().item():g} to {total.max().item():g}"
        )
    mass = values.new_ones(count, dtype=torch.float64) if total is None else total.double()
    scale = torch.where(mass > 0, mass, 1.0)[group]  # the simplex of total m is m times that of total 1
    scaled = values.double() / scale
    largest = scatter(scaled, group, dim_size=count, reduce="max")
    # Shifting a group changes nothing, and what is 1 below its largest entry is 0 in the end: so sums stay small.
    v = (scaled - largest[group]).clamp(min=-1)
    # the entries of a group one behind the other, the largest first, [E]
    order = v.argsort(descending=True, stable=True)
    order = order[group[order].argsort(stable=True)]
    sizes = torch.bincount(group, minlength=count)
    first = (sizes.cumsum(0) - sizes)[group[order]]
    place = torch.arange(len(v), device=v.device) - first
    # In whole numbers, so that the sums of the groups in front are taken away exactly (beyond 2⁶³ they come round).
    unit = 2.0 ** min(52, 62 - int(sizes.max()).bit_length())
    total = (v[order] * unit).round().long().cumsum(0)
    before = torch.cat([total.new_zeros(1), total])[first]
    theta = ((total - before).double() / unit - 1) / (place + 1)
    above = v[order] > theta  # of a group's entries the first ones
    last = scatter(above.long(), group[order], dim_size=count)
    threshold = v.new_zeros(count)
    filled = sizes > 0
    threshold[filled] = theta[((sizes.cumsum(0) - sizes) + last - 1)[filled]]
    out = (v - threshold[group]).clamp(min=0)
    return (out / scatter(out, group, dim_size=count)[group] * mass[group]).to(values.dtype)
