"""The handwritten digits that ship with scikit-learn."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch

from graphcollab.datasets.labelled_arrays import LabelledArrays
from graphcollab.settings import Real, Seed, checked

__all__ = ["digits"]


@checked
def digits(test_fraction: Annotated[float, Real(above=0, below=1)] = 0.25, seed: Seed = 0) -> LabelledArrays:
    """Load 1,797 real handwritten digits of 8 x 8 pixels. They come with scikit-learn, so nothing is downloaded.

    They are the test part of `Optical Recognition of Handwritten Digits
    <https://archive.ics.uci.edu/dataset/80/optical+recognition+of+handwritten+digits>`_. Pixel values 0 .. 16 are
    divided by 16 and not standardised. There is no official split, so one is drawn.

    Args:
        test_fraction: Share of all digits held out for testing, stratified by class. Default: a quarter (450 digits).
        seed: Chooses the split. Both parts keep scikit-learn's order.

    Shapes:
        Inputs of the result: [N, 1, 8, 8] in [0, 1].

    Raises:
        ValueError: ``test_fraction`` leaves a part with fewer than 10 digits.

    Example:
        >>> digits()
        LabelledArrays('digits', train=1347, test=450, input_shape=(1, 8, 8), num_classes=10)
    """
    from sklearn.datasets import load_digits  # scikit-learn takes a second to import
    from sklearn.model_selection import train_test_split

    loaded = load_digits()
    train, test = train_test_split(
        np.arange(len(loaded.target)), test_size=test_fraction, stratify=loaded.target, random_state=seed
    )
    # [1797, 8, 8] -> [1797, 1, 8, 8]
    inputs = torch.from_numpy(loaded.images).float().unsqueeze(1) / 16.0
    targets = torch.from_numpy(loaded.target).long()
    train, test = torch.from_numpy(np.sort(train)), torch.from_numpy(np.sort(test))
    return LabelledArrays(
        name="digits",
        train_inputs=inputs[train],
        train_targets=targets[train],
        test_inputs=inputs[test],
        test_targets=targets[test],
        class_names=tuple(str(name) for name in loaded.target_names),
    )
