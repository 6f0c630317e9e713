"""`LearnedGraph`: the learned graph as a PyG ``Data`` with node names, and its export formats."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas
import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab._base.checks import issue
from graphcollab._base.errors import FormatError
from graphcollab._base.files import of_cell, write_csv
from graphcollab.analysis.metrics.edges import pair_weights

if TYPE_CHECKING:
    import networkx


class LearnedGraph(Data):
    """The learned graph: ``edge_index``, ``edge_weight``, ``node_id``, and ``name``, the nodes' names.

    Edges are directed from sender to receiver, and an edge's weight is the receiver's weight on the sender's model. The
    graph is a PyG ``Data`` with export methods. If nothing travels along edges (`local`, and methods with a server such
    as `fedavg` and `ditto`), it has no edges.

    Example:
        >>> import torch
        >>> edges, weight = torch.tensor([[1, 0], [0, 1]]), torch.tensor([0.25, 0.5])
        >>> graph = LearnedGraph(edge_index=edges, edge_weight=weight, num_nodes=2, name=["north", "south"])
        >>> graph.named_edges()
        [('south', 'north', 0.25), ('north', 'south', 0.5)]
    """

    @classmethod
    def from_csv(cls, path: str | Path) -> LearnedGraph:
        """Read a CSV file with the columns sender, receiver and optionally weight, such as `to_csv` writes."""
        try:
            table = pandas.read_csv(path, dtype=str, keep_default_na=False)
            ends = table[["sender", "receiver"]].to_numpy().ravel()
            weight = {"edge_weight": torch.tensor(table["weight"].astype(float))} if "weight" in table else {}
        except (KeyError, ValueError) as error:
            raise FormatError(
                f"file {path}", f"{path} is no CSV file with the columns sender, receiver and weights: {error}"
            ) from error
        codes, names = pandas.factorize(ends)
        return cls(
            edge_index=torch.tensor(codes).view(-1, 2).T, num_nodes=len(names), name=[*map(of_cell, names)], **weight
        )

    def named_edges(self) -> list[tuple[str, str, float]]:
        """Return sender, receiver and weight of every edge."""
        ends, weights = self.edge_index.T.tolist(), self.edge_weight.tolist()
        return [(self.name[j], self.name[i], weight) for (j, i), weight in zip(ends, weights, strict=True)]

    def matrix(self) -> Tensor:
        """Return the weight that each node gave every other in the last round, float64 [K, K], receivers in rows.

        Entries are NaN if a node did not hear another one, and on the diagonal if it has no self-loop; between sites
        also if only another site knows the weight.
        """
        return pair_weights(self.edge_index, self.edge_weight, self.num_nodes, partly=True).cpu()

    def to_networkx(self) -> networkx.DiGraph:
        """Return a NetworkX graph whose nodes are the names; its edges have ``weight``, from sender to receiver."""
        import networkx

        graph = networkx.DiGraph()
        graph.add_nodes_from(self.name)
        graph.add_weighted_edges_from(self.named_edges())
        return graph

    def to_csv(self, path: str | Path) -> Path:
        """Write one line per edge, with the columns sender, receiver and weight, atomically.

        An existing file is replaced. A warning is issued if there are no edges.
        """
        if not self.edge_index.shape[1]:
            issue(
                "empty",
                "graph",
                "the graph that is written has no edges: nothing travels along edges under methods with a server, such "
                "as fedavg and ditto, nor under local; l2c, meta_l2c and others learn who listens to whom",
            )
        return write_csv(path, ["sender", "receiver", "weight"], self.named_edges())
