"""What another form of a method may get wrong, where the method itself holds the whole contract (test_contract.py)."""

from __future__ import annotations

from graphcollab import Method, Phases
from graphcollab.testing.contract import check_declared, check_membership, check_relabeling, check_resume, check_sends
from graphcollab.testing.edge_checks import check_forbidden_edges

FORM = (check_declared, check_sends, check_resume, check_relabeling, check_forbidden_edges, check_membership)


def check_form(method: Method | Phases) -> None:
    """Check what a form keeps and sends, and that neither order, forbidden edges nor those who are not there matter.

    What it leaves to the method is about how things are computed: number types, backends, chunks, and late nodes.
    """
    for check in FORM:
        check(method)
