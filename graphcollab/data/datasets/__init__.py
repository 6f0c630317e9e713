"""Datasets as :class:`LabeledArrays` and :class:`SiteTable`: loaders by name, and the user's own arrays.

Importing this package reads no data and does not import torchvision, scikit-learn or Pillow; loaders import them when
called. The cards in ``datasets/`` describe each dataset, its source and its layout on disk.
"""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.data.datasets.arrays import from_arrays as from_arrays
    from graphcollab.data.datasets.catalog import DATASETS as DATASETS, TABLES as TABLES
    from graphcollab.data.datasets.labeled_arrays import LabeledArrays as LabeledArrays, join_datasets as join_datasets
    from graphcollab.data.datasets.site_table import SiteTable as SiteTable

__all__ = make_lazy(__name__)
