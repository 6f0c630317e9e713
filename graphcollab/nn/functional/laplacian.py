"""The largest eigenvalue of a graph's Laplacian, which bounds stable step sizes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import scatter

DENSE = 400  # number of nodes up to which a dense solver is faster


def laplacian_bound(edge_index: Tensor, edge_weight: Tensor, num_nodes: int) -> float:
    """Return a cheap upper bound of `laplacian_radius`: twice the largest sum of a receiver's weights (Gershgorin)."""
    weight = edge_weight.detach().masked_fill(edge_index[0] == edge_index[1], 0)
    return 2 * float(scatter(weight, edge_index[1], dim_size=num_nodes).max()) if num_nodes else 0.0


def laplacian_radius(edge_index: Tensor, edge_weight: Tensor, num_nodes: int) -> float:
    r"""Return the largest modulus of an eigenvalue of the weighted Laplacian :math:`L_w = \mathrm{diag}(W 1) - W`.

    It determines which steps are stable (`LaplacianPull`). Edges are j → i, [2, E], self-loops are ignored, and weights
    are those of j at i, [E], nonnegative. If the eigenvalue search for a graph of more than 400 nodes does not
    converge, the result is `laplacian_bound`; if a weight is not finite, it is NaN.
    """
    sender, receiver = edge_index.cpu()
    weight = edge_weight.detach().cpu().double().masked_fill(sender == receiver, 0)
    degree = scatter(weight, receiver, dim_size=num_nodes)
    if not bool((weight != 0).any()):
        return 0.0
    if not bool(degree.isfinite().all()):
        return float("nan")  # solvers may abort the process
    if num_nodes <= DENSE:
        laplacian = degree.diag().index_put((receiver, sender), -weight, accumulate=True)
        symmetric = bool(torch.equal(laplacian, laplacian.T))
        values = torch.linalg.eigvalsh(laplacian) if symmetric else torch.linalg.eigvals(laplacian)
        return float(values.abs().max())
    from scipy import sparse  # imported here because it is slow

    node = torch.arange(num_nodes)
    rows, columns = torch.cat([receiver, node]).numpy(), torch.cat([sender, node]).numpy()
    laplacian = sparse.csr_array((torch.cat([-weight, degree]).numpy(), (rows, columns)), shape=(num_nodes, num_nodes))
    symmetric = abs(laplacian - laplacian.T).max() == 0
    find = sparse.linalg.eigsh if symmetric else sparse.linalg.eigs
    start = torch.cos(node.double() ** 2).numpy()  # the same start vector every time
    try:
        return float(abs(find(laplacian, k=1, which="LM", v0=start, return_eigenvectors=False)[0]))
    except sparse.linalg.ArpackNoConvergence:
        return laplacian_bound(edge_index, edge_weight, num_nodes)
