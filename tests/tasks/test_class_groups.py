from __future__ import annotations

from graphcollab.tasks import ANIMALS_VEHICLES, CIFAR100_GROUPS, FIVE_PAIRS

# Superclass of every fine label as the dataset's files have it; superclasses are numbered in alphabetical order.
COARSE = [
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10,
    12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12, 16,
    12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14,
    13,
]  # fmt: skip


def test_cifar10():
    names = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
    assert [[names[c] for c in group] for group in ANIMALS_VEHICLES] == [
        ["bird", "cat", "deer", "dog", "frog", "horse"],
        ["airplane", "automobile", "ship", "truck"],
    ]
    assert sorted(c for pair in FIVE_PAIRS for c in pair) == list(range(10))
    assert [len(pair) for pair in FIVE_PAIRS] == [2] * 5


def test_cifar100():
    """Cluster 2 has flowers, food, fruit, nature, trees; cluster 3 devices, furniture, man-made things, vehicles."""
    assert [len(group) for group in CIFAR100_GROUPS] == [50, 25, 25]
    assert sorted(c for group in CIFAR100_GROUPS for c in group) == list(range(100))
    coarse = [{COARSE[c] for c in group} for group in CIFAR100_GROUPS]
    assert coarse == [{0, 1, 7, 8, 11, 12, 13, 14, 15, 16}, {2, 3, 4, 10, 17}, {5, 6, 9, 18, 19}]
    apple, worm, baby, bed, wolf = 0, 99, 2, 5, 97
    assert apple in CIFAR100_GROUPS[1]
    assert {worm, baby, wolf} <= set(CIFAR100_GROUPS[0])
    assert bed in CIFAR100_GROUPS[2]
