from __future__ import annotations

from graphcollab.data.partition.label_shift import ANIMALS_VEHICLES, FIVE_PAIRS


def test_cifar10():
    names = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    assert [[names[c] for c in group] for group in ANIMALS_VEHICLES] == [
        ["bird", "cat", "deer", "dog", "frog", "horse"],
        ["airplane", "automobile", "ship", "truck"],
    ]
    assert sorted(c for pair in FIVE_PAIRS for c in pair) == list(range(10))
    assert [len(pair) for pair in FIVE_PAIRS] == [2] * 5
