"""The exchange slot: a formula (base, message, weights) and the route of models; the bytes follow from both."""

from typing import TYPE_CHECKING

from graphcollab._base.lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.components.exchange.exchange import (
        Exchange as Exchange,
        LaplacianPull as LaplacianPull,
        ShrinkIntercepts as ShrinkIntercepts,
    )
    from graphcollab.components.exchange.layer import Layer as Layer
    from graphcollab.components.exchange.route import (
        AlongEdges as AlongEdges,
        Route as Route,
        Sent as Sent,
        Ways as Ways,
    )
    from graphcollab.components.exchange.servers import (
        AtServer as AtServer,
        NeighborhoodMeans as NeighborhoodMeans,
        Served as Served,
        ThroughCenters as ThroughCenters,
        ThroughServer as ThroughServer,
    )
    from graphcollab.components.exchange.unmixed import (
        NoExchange as NoExchange,
        PrototypeAverage as PrototypeAverage,
        Receive as Receive,
    )

__all__ = make_lazy(__name__)
