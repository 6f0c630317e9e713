"""Sparse mixing of models and its gradient; distances and cosines per edge; simplices, cones and Laplacians."""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.nn.functional.distances import edge_cosines as edge_cosines, edge_distances as edge_distances
    from graphcollab.nn.functional.mixing import edge_products as edge_products, mix as mix
    from graphcollab.nn.functional.structure import Structure as Structure

__all__ = make_lazy(__name__)
