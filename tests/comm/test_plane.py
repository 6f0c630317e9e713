from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from graphcollab.comm import Plane, Relation
from graphcollab.comm.lists import edges_of_neighbors, gather_texts, merge_edges
from graphcollab.engine import Rows, Stacks
from graphcollab.engine.stack import ParamSpec
from graphcollab.models import MLP
from tests.raising import raises
from tests.testing.lockstep import in_lockstep

NODES, WIDTH = 7, 5
OWNERS = {
    "two": [torch.tensor([0, 1, 2, 3]), torch.tensor([4, 5, 6])],
    "mixed": [torch.tensor([0, 2, 6]), torch.tensor([1, 3, 4, 5])],
    "uneven": [torch.tensor([0]), torch.tensor([1, 2, 3, 5]), torch.tensor([4]), torch.tensor([6])],
}


@pytest.fixture(params=OWNERS.values(), ids=OWNERS.keys())
def owners(request):
    return request.param


def numbers(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def some_edges():
    draw = torch.Generator().manual_seed(4)
    every = torch.cartesian_prod(torch.arange(NODES), torch.arange(NODES)).T
    return every[:, torch.randperm(NODES * NODES, generator=draw)[:20]]


def spread(owners, compute):
    """Compute with one process and with several; return what each of them found."""
    alone = compute(Plane(NODES))
    many, meeting = in_lockstep(owners, lambda transport: compute(Plane(NODES, transport)))
    return alone, many, meeting


def agree_at_receivers(alone, many, owners, edges):
    for nodes, found in zip(owners, many, strict=True):
        here = torch.isin(edges[1], nodes)
        torch.testing.assert_close(found[here], alone[here], rtol=1e-12, atol=1e-12)
        assert bool(found[~here].isnan().all())


def test_mixing_is_the_same_at_every_receiver(owners):
    rows, edges, weight = numbers(NODES, WIDTH), some_edges(), numbers(20)
    alone, many, meeting = spread(owners, lambda plane: plane.mix(plane.local_values(rows), weight, edges))
    dense = torch.zeros(NODES, NODES, dtype=torch.float64).index_put((edges[1], edges[0]), weight, accumulate=True)
    torch.testing.assert_close(alone, dense @ rows)
    for nodes, found in zip(owners, many, strict=True):
        torch.testing.assert_close(found, alone[nodes], rtol=1e-12, atol=1e-12)
    for nodes, moved in zip(owners, (fetches[0] for fetches in meeting.moved), strict=True):
        heard = edges[0][torch.isin(edges[1], nodes)].unique()
        assert moved.tolist() == heard[~torch.isin(heard, nodes)].tolist(), "each remote sender once, and nobody else"


def test_rows_that_several_read_come_once(owners):
    """Along some edges first and all then, beside others in one fetch; what is forgotten comes anew."""
    rows, edges, weight = numbers(NODES, WIDTH), some_edges(), numbers(20)

    def several(plane):
        own = plane.local_values(rows).clone()
        change = plane.change(own, 2 * own)
        plane.prefetch(edges[:, :8], lambda: [own[:, :3], change])
        found = [plane.mix(own[:, :3], weight[:8], edges[:, :8]), plane.mix(change, weight[:8], edges[:, :8])]
        found += [plane.mix(own[:, :3], weight, edges), plane.mix(own[:, :3], weight[5:], edges[:, 5:])]
        plane.forget()
        return [*found, plane.mix(own[:, :3], weight[:8], edges[:, :8])]

    alone, many, meeting = spread(owners, several)
    for nodes, found in zip(owners, many, strict=True):
        for one, whole in zip(found, alone, strict=True):
            torch.testing.assert_close(one, whole[nodes], rtol=1e-12, atol=1e-12)
    for nodes, (first, more, anew) in zip(owners, meeting.moved, strict=True):
        some, every = ({*e[0, torch.isin(e[1], nodes)].tolist()} - {*nodes.tolist()} for e in (edges[:, :8], edges))
        assert (sorted(some), sorted(every - some)) == (first.tolist(), more.tolist())
        assert anew.tolist() == first.tolist()


@pytest.mark.parametrize("operator", ["products", "cosines", "distances"])
def test_comparisons_are_known_at_receivers(owners, operator):
    a, b, edges = numbers(NODES, WIDTH), numbers(NODES, WIDTH).flip(0), some_edges()
    alone, many, _ = spread(
        owners, lambda plane: getattr(plane, operator)(plane.local_values(a), plane.local_values(b), edges)
    )
    agree_at_receivers(alone, many, owners, edges)
    group = torch.tensor([0, 0, 1, 1, 0, 1, 1])
    if operator != "products":
        grouped = spread(owners, lambda p: getattr(p, operator)(p.local_values(a), p.local_values(b), edges, group))
        agree_at_receivers(*grouped[:2], owners, edges)


def test_gradients_do_not_go_back_to_other_processes(owners):
    rows, edges = numbers(NODES, WIDTH), some_edges()
    with raises("contract", "rows"):
        spread(owners, lambda p: p.products(p.local_values(rows), p.local_values(rows).clone().requires_grad_(), edges))


def test_totals_are_the_same_everywhere(owners):
    rows, weight = numbers(NODES, WIDTH), numbers(NODES)
    links = torch.stack([torch.arange(NODES), torch.tensor([0, 1, 0, 1, 1, 0, 0])])
    alone, many, _ = spread(owners, lambda plane: plane.group_sums([plane.local_values(rows)], [weight], links, 2)[0])
    torch.testing.assert_close(alone[0], weight[[0, 2, 5, 6]] @ rows[[0, 2, 5, 6]])
    for found in many:
        torch.testing.assert_close(found, alone, rtol=1e-12, atol=1e-12)
        assert torch.equal(found, many[0])


def test_what_is_known_at_a_receiver_can_be_told():
    owners, edges, values = OWNERS["uneven"], some_edges(), numbers(20)

    def told(plane):
        here = plane.transport.local_mask(edges[1])
        known = values if here is None else values.masked_fill(~here, torch.nan)
        return plane.broadcast(known, edges[1]), plane.broadcast(known, edges[1], edges[0])

    alone, many, _ = spread(owners, told)
    assert torch.equal(alone[0], values)
    for nodes, (public, ends) in zip(owners, many, strict=True):
        assert torch.equal(public, values)
        near = torch.isin(edges, nodes).any(0)
        assert torch.equal(ends[near], values[near])
        assert bool(ends[~near].isnan().all())


def test_values_of_nodes_are_gathered(owners):
    values = torch.arange(NODES) * 10
    _, many, _ = spread(owners, lambda plane: plane.all_gather(plane.local_values(values))[0])
    assert all(torch.equal(found, values) for found in many)


@pytest.mark.parametrize("kinds", [None, [0, 1, 0, 0, 1, 0, 1]])
@pytest.mark.parametrize("to", ["data", "model", "public"])
def test_models_travel_to_the_data_they_meet(owners, to, kinds):
    """Node 0 of "uneven" is a process that owns no node of one architecture."""
    modules = [MLP(2, (3,), 2)] if kinds is None else [MLP(2, (3,), 2), MLP(2, (4,), 2)]
    kind = None if kinds is None else torch.tensor(kinds)
    specs = tuple(map(ParamSpec.from_module, modules))
    data = numbers(NODES)  # of which a node knows its own number only
    edges = some_edges()

    def answers(plane):
        members = [plane.own if kind is None else plane.own[kind[plane.own] == s] for s in range(len(specs))]
        tensors = [m[:, None].double() + torch.arange(s.num_columns) for m, s in zip(members, specs, strict=True)]
        models = Stacks(specs, tuple(tensors), tuple(members))
        known = torch.full_like(data, torch.nan).index_put((plane.own,), plane.local_values(data))

        def answer(rows):
            out = torch.empty(len(rows), dtype=torch.float64)
            for s, where, _ in rows.source.locate(rows.index):
                out[where] = rows.parameters(s, where)[:, :3].sum(1) * known[rows.node[where]]
            return out

        return Plane(NODES, plane.transport, kind).evaluate_at(Rows(models, edges[1], edges[0]), answer, to)

    alone, many, _ = spread(owners, answers)
    torch.testing.assert_close(alone, (3 * edges[0] + 3) * data[edges[1]])
    for nodes, found in zip(owners, many, strict=True):
        near = torch.isin(edges[1], nodes)
        if to != "data":
            near = torch.isin(edges, nodes).any(0) if to == "model" else torch.ones_like(near)
        assert torch.equal(found[near], alone[near])
        assert bool(found[~near].isnan().all())


def test_charges_are_counted_once(owners):
    edges, weight = some_edges(), numbers(20).clamp(min=0)

    def charge(plane):
        data = Data(num_nodes=NODES, bytes_sent=torch.zeros(NODES, dtype=torch.float64))
        here = plane.transport.local_mask(edges[1])
        known = weight if here is None else weight.masked_fill(~here, torch.nan)
        used = known != 0
        data = plane.charge(data, edges[0][used], 10, at=edges[1][used])
        return plane.charge(data, torch.tensor([2, 2]), torch.tensor([1.0, 0.5])).bytes_sent

    alone, many, _ = spread(owners, charge)
    by_hand = 40.0 * torch.bincount(edges[0][weight != 0], minlength=NODES)
    assert alone.tolist() == (by_hand + torch.tensor([0, 0, 6.0, 0, 0, 0, 0])).tolist()
    assert torch.equal(sum(many), alone)


def test_an_error_in_one_process_is_raised_by_all():
    def fail(transport):
        plane = Plane(NODES, transport)
        if 0 in plane.own:
            raise ValueError("node 0 has no samples")
        return plane.all_reduce(torch.zeros(1))

    with pytest.raises(ValueError, match="node 0 has no samples"):
        in_lockstep(OWNERS["uneven"], fail)


def test_processes_that_branch_differently_are_found():
    def branch(transport):
        plane = Plane(NODES, transport)
        return plane.all_reduce(torch.zeros(1)) if 0 in plane.own else plane.all_gather(torch.zeros(len(plane.own)))

    with raises("state", "processes", "'all_reduce'", "'gather'", kind=RuntimeError):
        in_lockstep(OWNERS["two"], branch)


def test_edges_found_at_receivers_are_put_together_and_told():
    edges, values = some_edges(), numbers(20)
    relation = Relation(edges[:, edges[1].argsort(stable=True)], values, (NODES, NODES))
    heard = torch.tensor([[1, 6], [0, 0]])

    def found(plane):
        here = plane.transport.local_mask(relation.edge_index[1])
        here = torch.ones(20, dtype=torch.bool) if here is None else here
        own = Relation(relation.edge_index[:, here], values[here], relation.size)
        texts = gather_texts(plane, {k: f"node {k}" for k in plane.own.tolist()})
        return merge_edges(plane, own), edges_of_neighbors(plane, own.select(own.values > 0), heard), texts

    _, many, _ = spread(OWNERS["two"], found)
    key = edges[1] * NODES + edges[0]
    for nodes, (together, _, texts) in zip(([0, 1, 2, 3], [4, 5, 6]), many, strict=True):
        assert torch.equal(together.edge_index[1] * NODES + together.edge_index[0], key.sort().values)
        mine = torch.isin(together.edge_index[1], torch.tensor(nodes))
        assert torch.equal(together.values[mine], relation.in_order().values[mine])
        assert bool(together.values[~mine].isnan().all()), "only receivers know what they say of their edges"
        assert texts == {k: f"node {k}" for k in range(NODES)}
    told = relation.in_order()
    receiver = told.edge_index[1]
    for nodes, heard_of, (_, found_here, _) in zip(([0, 1, 2, 3], [4, 5, 6]), ([6], []), many, strict=True):
        own, shared = (torch.isin(receiver, torch.tensor(some)) for some in (nodes, heard_of))
        expected = told.select((own | shared) & (told.values > 0))
        assert torch.equal(found_here.edge_index, expected.edge_index), "node 0 is told what node 6 tells, no more"
        assert torch.equal(found_here.values, expected.values)
