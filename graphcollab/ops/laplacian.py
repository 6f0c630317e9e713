"""The largest eigenvalue of a graph's Laplacian, which bounds step sizes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.utils import scatter

__all__ = ["laplacian_bound", "laplacian_radius"]

DENSE = 400  # nodes up to which a dense solver is the faster one


def laplacian_bound(edge_index: Tensor, edge_weight: Tensor, num_nodes: int) -> float:
    """Return a bound of `laplacian_radius` that is cheap: twice the largest sum of a receiver's weights (Gershgorin).

    Example:
        >>> laplacian_bound(torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, 1.0]), 2)
        2.0
    """
    weight = edge_weight.detach().masked_fill(edge_index[0] == edge_index[1], 0)
    return 2 * float(scatter(weight, edge_index[1], dim_size=num_nodes).max()) if num_nodes else 0.0


def laplacian_radius(edge_index: Tensor, edge_weight: Tensor, num_nodes: int) -> float:
    r"""Return the largest modulus of an eigenvalue of the weighted Laplacian :math:`L_w = \mathrm{diag}(W 1) - W`.

    A gradient step of size η on L-smooth losses together with the step :math:`-\eta\rho L_w x` is stable if
    :math:`\eta (L + \rho \lambda_{\max}(L_w)) < 2`. All pairs of weight 1 have :math:`\lambda_{\max} = K`.
    Where the search for the eigenvalue of a graph of more than 400 nodes does not converge, it is `laplacian_bound`.

    Shapes:
        edge_index: [2, E], edges j -> i, self-loops play no part; edge_weight: [E], what i gives to j, not negative.

    Example:
        >>> round(laplacian_radius(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.ones(4), 3), 6)
        3.0
    """
    sender, receiver = edge_index.cpu()
    weight = edge_weight.detach().cpu().double().masked_fill(sender == receiver, 0)
    degree = scatter(weight, receiver, dim_size=num_nodes)
    if not bool((weight != 0).any()):
        return 0.0
    if num_nodes <= DENSE:
        laplacian = degree.diag().index_put((receiver, sender), -weight, accumulate=True)
        symmetric = bool(torch.equal(laplacian, laplacian.T))
        values = torch.linalg.eigvalsh(laplacian) if symmetric else torch.linalg.eigvals(laplacian)
        return float(values.abs().max())
    from scipy import sparse  # here, since importing it takes long

    node = torch.arange(num_nodes)
    rows, columns = torch.cat([receiver, node]).numpy(), torch.cat([sender, node]).numpy()
    laplacian = sparse.csr_array((torch.cat([-weight, degree]).numpy(), (rows, columns)), shape=(num_nodes, num_nodes))
    symmetric = abs(laplacian - laplacian.T).max() == 0
    find = sparse.linalg.eigsh if symmetric else sparse.linalg.eigs
    start = torch.cos(node.double() ** 2).numpy()  # the same numbers every time
    try:
        return float(abs(find(laplacian, k=1, which="LM", v0=start, return_eigenvectors=False)[0]))
    except sparse.linalg.ArpackNoConvergence:
        return laplacian_bound(edge_index, edge_weight, num_nodes)
