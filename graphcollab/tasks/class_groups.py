"""The groups of classes with which label shifts have been published."""

from __future__ import annotations

__all__ = ["ANIMALS_VEHICLES", "CIFAR100_GROUPS", "FIVE_PAIRS"]

ANIMALS_VEHICLES: tuple[tuple[int, ...], ...] = ((2, 3, 4, 5, 6, 7), (0, 1, 8, 9))
"""CIFAR-10's animals (60 nodes) and vehicles (40 nodes).

Table A.1 of `With a Little Help from My Friends: A Comparative Study of Decentralized Deep Learning Strategies`
(Hagander and Ihre-Thomason, Lund University, 2024).
"""

FIVE_PAIRS: tuple[tuple[int, ...], ...] = ((0, 1), (2, 3), (4, 5), (6, 7), (8, 9))
"""Five clusters of two of ten classes, 20 nodes each (section 3.1.2 of the same thesis).

It does not say which classes go together; neighbouring labels are a choice of this package.
"""

_SUPERCLASSES = {
    "aquatic mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food containers": "bottle bowl can cup plate",
    "fruit and vegetables": "apple mushroom orange pear sweet_pepper",
    "household electrical devices": "clock keyboard lamp telephone television",
    "household furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large carnivores": "bear leopard lion tiger wolf",
    "large man-made outdoor things": "bridge castle house road skyscraper",
    "large natural outdoor scenes": "cloud forest mountain plain sea",
    "large omnivores and herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium-sized mammals": "fox porcupine possum raccoon skunk",
    "non-insect invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles 1": "bicycle bus motorcycle pickup_truck train",
    "vehicles 2": "lawn_mower rocket streetcar tank tractor",
}  # Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009

_FINE_LABEL = {name: label for label, name in enumerate(sorted(" ".join(_SUPERCLASSES.values()).split()))}

_CIFAR100_CLUSTERS = (
    (
        "aquatic mammals", "fish", "reptiles", "insects", "large carnivores", "large omnivores and herbivores",
        "medium-sized mammals", "non-insect invertebrates", "small mammals", "people",
    ),
    ("flowers", "food containers", "fruit and vegetables", "trees", "large natural outdoor scenes"),
    (
        "household electrical devices", "household furniture", "large man-made outdoor things", "vehicles 1",
        "vehicles 2",
    ),
)  # fmt: skip

CIFAR100_GROUPS: tuple[tuple[int, ...], ...] = tuple(
    tuple(sorted(_FINE_LABEL[name] for superclass in cluster for name in _SUPERCLASSES[superclass].split()))
    for cluster in _CIFAR100_CLUSTERS
)
"""CIFAR-100's superclasses in three clusters of 50, 25 and 25 fine labels (26, 13 and 13 nodes).

Table A.2 of the same thesis, with the superclasses of `Learning Multiple Layers of Features from Tiny Images`
(Krizhevsky, 2009). Fine labels count the classes in alphabetical order, as the dataset's files do.
"""
