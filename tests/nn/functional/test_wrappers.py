"""Tensors that compiled kernels cannot read: taken out of their wrapper, or refused; an address of 0 ends Python."""

from __future__ import annotations

import inspect

import pytest

from tests.forked import interpret


def wrappers():
    """What is tried, in a process of its own: every row is a value, and the subject of its error."""
    import pytest
    import torch
    from torch._subclasses import FakeTensorMode
    from torch.testing._internal.two_tensor import TwoTensor
    from torch_geometric import EdgeIndex
    from torch_geometric.index import Index

    from graphcollab import GraphcollabError
    from graphcollab.nn import MixConv
    from graphcollab.nn.functional import edge_products, mix
    from graphcollab.nn.functional.distances import edge_cosines, edge_distances
    from graphcollab.nn.functional.kernels import PRODUCTS

    x, weight = torch.arange(12.0).view(3, 4), torch.tensor([0.5, 1.0, 2.0])
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    mixed = torch.stack([2.0 * x[2], 0.5 * x[0], x[1]])

    size = {"sparse_size": (3, 3)}
    row = EdgeIndex(edges, sort_order="row", **size)
    both = EdgeIndex([[0, 1, 1, 2], [1, 0, 2, 1]], sort_order="row", is_undirected=True, **size)
    for given in (EdgeIndex(edges, **size), row, row.fill_cache_(), EdgeIndex(edges.int(), **size)):
        for kernel in (None, *PRODUCTS.keys() - {"triton"}):
            assert torch.equal(mix(x, weight, given, kernel=kernel), mixed), kernel
            assert torch.equal(MixConv(kernel)(x, given, weight), mixed), kernel
        assert edge_products(x, x, given).tolist() == [38.0, 214.0, 62.0]
        assert edge_distances(x, x, given).tolist() == [8.0, 8.0, 16.0]
        assert torch.equal(edge_cosines(x, x, given), edge_cosines(x, x, edges))
    column = EdgeIndex(edges[:, [2, 0, 1]], sort_order="col", **size)
    assert torch.equal(mix(x, weight[[2, 0, 1]], column), mixed)
    assert torch.equal(mix(x, weight, row.flip(0)), torch.stack([0.5 * x[1], x[2], 2.0 * x[0]]))  # PyG's transpose
    assert torch.equal(mix(x, torch.ones(4), both), torch.stack([x[1], x[0] + x[2], x[1]]))

    negative = torch.complex(-x[:, :1], x[:, :1]).conj().imag  # -x, which is negated when it is read
    assert torch.equal(mix(negative, weight, edges), -mixed[:, :1])
    assert torch.equal(mix(x, -torch.complex(weight, weight)[:1].conj().imag, edges[:, :1])[1], mixed[1])

    with FakeTensorMode():
        fake = torch.zeros(3, 4), torch.zeros(3), torch.zeros(2, 3, dtype=torch.int64)
    freed = x.clone()
    freed.untyped_storage().resize_(0)
    two = TwoTensor(x, x), TwoTensor(weight, weight), TwoTensor(edges, edges)
    zero = torch._efficientzerotensor((3, 4))

    def refused(ask, code="value", subject="values"):
        with pytest.raises(GraphcollabError) as found:
            ask()
        assert (found.value.code, found.value.subject) == (code, subject)

    layouts = x.to_sparse(), x.to_sparse_csr(), torch.nested.nested_tensor([x, x, x]), x.to_mkldnn()
    for rows, subject in [
        *((rows, "values") for rows in (two[0], fake[0], freed, zero)),
        *((rows, "rows") for rows in (*layouts, x.numpy())),
    ]:
        for kernel in (None, *PRODUCTS.keys() - {"triton"}):
            refused(lambda rows=rows, kernel=kernel: mix(rows, weight, edges, kernel=kernel), subject=subject)
            for given in ({"base": rows}, {"against": rows}):
                refused(lambda given=given, kernel=kernel: mix(x, weight, edges, 3, kernel, **given), subject=subject)
        for of_edges in (edge_products, edge_distances, edge_cosines):
            refused(lambda rows=rows, of_edges=of_edges: of_edges(rows, rows, edges), subject=subject)
            refused(lambda rows=rows, of_edges=of_edges: of_edges(x, rows, edges[:, :1]), subject=subject)
    for kernel in (None, *PRODUCTS.keys() - {"triton"}):
        for weights in (two[1], fake[1], zero[0], Index([0, 1, 2])):
            refused(lambda weights=weights, kernel=kernel: mix(x, weights, edges, kernel=kernel))
            refused(lambda weights=weights, kernel=kernel: MixConv(kernel)(x, edges, weights))
            refused(lambda weights=weights, kernel=kernel: mix(x, weights, edges, 3, kernel, base=x))
        for names in (two[2], fake[2], Index([0, 1, 2]), torch.eye(3).to_sparse(), edges.tolist()):
            refused(lambda names=names, kernel=kernel: mix(x, weight, names, kernel=kernel), "shape", "edge_index")
            refused(lambda names=names, kernel=kernel: MixConv(kernel)(x, names, weight), "shape", "edge_index")
    refused(lambda: MixConv()(two[0], edges, weight))
    for transformed in (torch.func.vmap, torch.func.functionalize):
        refused(lambda transformed=transformed: transformed(lambda rows: mix(rows, weight, edges))(torch.stack([x, x])))


@pytest.mark.slow
def test_wrappers_are_taken_off_or_refused(tmp_path):
    script = tmp_path / "tried.py"
    script.write_text(inspect.getsource(wrappers) + "\nwrappers()\n")
    ran = interpret(script)
    assert ran.returncode == 0, ran.stderr[-2000:]
