"""Checks that methods, also those of extensions, can be put to."""

from graphcollab.testing.claims import NotApplicable, differences, leaves
from graphcollab.testing.contract import (
    CONTRACT,
    check_absent_nodes,
    check_backends_agree,
    check_chunks_agree,
    check_contract,
    check_declared,
    check_input_untouched,
    check_keeps_dtype,
    check_membership,
    check_relabelling,
    check_resume,
    check_runs,
    check_sends,
    check_stragglers,
    check_two_architectures,
)
from graphcollab.testing.edge_checks import (
    check_alone_equals_local,
    check_direction,
    check_forbidden_edges,
    check_reach,
)
from graphcollab.testing.scene import Scene

__all__ = [
    "CONTRACT",
    "NotApplicable",
    "Scene",
    "check_absent_nodes",
    "check_alone_equals_local",
    "check_backends_agree",
    "check_chunks_agree",
    "check_contract",
    "check_declared",
    "check_direction",
    "check_forbidden_edges",
    "check_input_untouched",
    "check_keeps_dtype",
    "check_membership",
    "check_reach",
    "check_relabelling",
    "check_resume",
    "check_runs",
    "check_sends",
    "check_stragglers",
    "check_two_architectures",
    "differences",
    "leaves",
]
