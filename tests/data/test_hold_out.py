"""Validation samples: drawn by node, and of every class where samples have classes."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, strategies as st

from graphcollab import Tasks
from graphcollab._base.keyed import keyed_order
from graphcollab.data.samples import Pool, Split


def tasks(*labels):
    """One node for each list of labels; samples are numbered."""
    lists = torch.arange(sum(map(len, labels))).split([len(many) for many in labels])
    targets = torch.tensor([one for many in labels for one in many])
    return Tasks({"p": Pool(torch.arange(len(targets)), targets)}, {"train": Split.from_lists("p", list(lists))})


def held(made, node=0):
    return Counter(made.pools["p"].targets[made.splits["val"].of(node)].tolist())


AMOUNTS = {"loss": "mse", "metric": "mse"}


def hold_out_by_hand(count, fraction, seed, ident):
    """The random hold-out, written out."""
    index = keyed_order(seed, 101, ident, torch.arange(count))
    many = min(max(round(fraction * count), 1) if count > 1 and fraction > 0 else 0, count - 1)
    return index[many:].tolist(), index[:many].tolist()


@pytest.mark.parametrize("targets", [torch.int64, torch.float32])
def test_the_random_hold_out_is_what_it_was(targets):
    sizes, ids = [1, 2, 7, 30, 11], torch.tensor([7, 3, 900, 4, 0])
    nodes = [(torch.zeros(n, 1), torch.arange(n).to(targets) % 3) for n in sizes]
    stratify = targets == torch.float32  # real values have no classes: stratifying changes nothing
    for fraction in (0.0, 0.2, 0.25, 0.7):
        made = Tasks.from_samples(nodes, val_fraction=fraction, seed=5, node_id=ids, stratify=stratify, **AMOUNTS)
        start = 0
        for node, count in enumerate(sizes):
            train, val = hold_out_by_hand(count, fraction, 5, int(ids[node]))
            assert (made.splits["train"].of(node) - start).tolist() == train
            assert (made.splits["val"].of(node) - start).tolist() == val
            start += count


def test_classes_by_hand():
    # 20 of 100 samples of shares 90, 7, 2 and 1: owed are 18, 1.4, 0.4 and 0.2; the class of two has its one first,
    # and what is left of 20 goes to the largest: 18 - 0, 1
    made = tasks([0] * 90 + [1] * 7 + [2] * 2 + [3]).hold_out(0.2)
    assert held(made) == {0: 18, 1: 1, 2: 1}
    # 3 of 10: owed are 1.8, 0.9 and 0.3: one each, since all have two at least
    assert held(tasks([0] * 5 + [1] * 3 + [2] * 2).hold_out(0.3)) == {0: 1, 1: 1, 2: 1}
    # 2 of 10: the two largest classes
    assert held(tasks([0] * 5 + [1] * 3 + [2] * 2).hold_out(0.2)) == {0: 1, 1: 1}
    # 6 of 10: owed are 4.2 and 1.8, by largest remainders 4 and 2
    assert held(tasks([4] * 7 + [9] * 3).hold_out(0.6)) == {4: 4, 9: 2}
    # 9 of 10: all but one sample; of both classes the last one would be needed, and one of them has to go
    assert sum(held(tasks([0] * 5 + [1] * 5).hold_out(0.9)).values()) == 9
    # labels that occur once are held out only where there is nothing else
    assert held(tasks([0, 1, 2, 3, 3, 3]).hold_out(0.34)) == {3: 2}
    assert sum(held(tasks([0, 1, 2, 3]).hold_out(0.5)).values()) == 2


@given(
    st.lists(st.lists(st.integers(-1, 4), min_size=1, max_size=30), min_size=1, max_size=4),
    st.floats(0, 0.95),
    st.integers(0, 3),
)
def test_what_holds_for_all(labels, fraction, seed):
    made = tasks(*labels).hold_out(fraction, seed)
    start = 0
    for node, own in enumerate(labels):
        train, val = made.splits["train"].of(node).tolist(), made.splits["val"].of(node).tolist()
        assert sorted(train + val) == list(range(start, start + len(own)))
        assert len(val) == len(hold_out_by_hand(len(own), fraction, seed, node)[1])
        counts, out = Counter(own), held(made, node)
        several = [c for c, n in counts.items() if n > 1]
        if len(several) <= len(val):
            assert all(out[c] >= 1 for c in several)
        if len(val) <= sum(n - 1 for n in counts.values()):
            assert all(out[c] < n for c, n in counts.items()), "some of every class is kept"
        for a in several:  # nobody gets more than is owed while another gets less
            over = out[a] - len(val) * counts[a] / len(own)
            assert (
                over < 1 + 1e-9
                or out[a] == 1
                or len(several) > len(val)
                or any(n == out[c] + 1 for c, n in counts.items())
            )
        start += len(own)


def test_the_draw_follows_seed_and_identity():
    made = tasks([0, 1] * 20, [0, 1] * 20, [0, 1] * 20)
    again = made.select([2, 0])
    first, second = made.hold_out(0.3), again.hold_out(0.3)
    assert torch.equal(first.splits["val"].of(2), second.splits["val"].of(0))
    assert torch.equal(first.splits["train"].of(0), second.splits["train"].of(1))
    assert not torch.equal(first.splits["val"].of(0), made.hold_out(0.3, seed=1).splits["val"].of(0))
    assert not torch.equal(first.splits["val"].of(0), first.splits["val"].of(1) - 40)


def test_a_thousand_nodes():
    targets = torch.arange(1000 * 1000) % 7
    split = Split("p", torch.arange(len(targets)), torch.arange(0, len(targets) + 1, 1000))
    made = Tasks({"p": Pool(torch.zeros(len(targets)), targets)}, {"train": split})
    out = made.hold_out(0.2)
    assert out.sizes("val").tolist() == [200] * 1000


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_zeros_and_ones_are_classes_whatever_their_type(dtype, shape):
    labels = torch.cat([torch.ones(3), torch.zeros(47)]).to(dtype).view(shape)
    tasks = Tasks.from_samples([(torch.randn(50, 2), labels)] * 20, loss="bce", metric="auc")
    val = tasks.splits["val"]
    held = torch.stack([tasks.pools[val.pool].targets[val.of(k)].flatten().sum() for k in range(20)])
    assert held.min() >= 1
    assert held.max() < 3
    half = Tasks.from_samples([(torch.randn(50, 2), 0.5 * labels)] * 2, loss="mse", metric="mse")
    assert half.sizes("val").tolist() == [10, 10]
