"""Datasets as :class:`LabeledArrays` and :class:`SiteTable`: loaders by name, and the user's own arrays.

Importing this package reads no data and imports neither torchvision, scikit-learn nor Pillow; loaders do that when
called. What each dataset is, where it comes from and how it lies on disk is told in the cards in ``datasets/``.
"""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.data.datasets.arrays import from_arrays as from_arrays, from_npz as from_npz
    from graphcollab.data.datasets.catalog import DATASETS as DATASETS, TABLES as TABLES
    from graphcollab.data.datasets.labeled_arrays import LabeledArrays as LabeledArrays, join_datasets as join_datasets
    from graphcollab.data.datasets.site_table import SiteTable as SiteTable

__all__ = make_lazy(__name__)
