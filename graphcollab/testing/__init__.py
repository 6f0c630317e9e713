"""Checks that methods, also those of extensions, can be put to."""

from typing import TYPE_CHECKING

from graphcollab._lazy import make_lazy

if TYPE_CHECKING:
    from graphcollab.testing.claims import NotApplicable as NotApplicable, differences as differences, leaves as leaves
    from graphcollab.testing.contract import (
        CONTRACT as CONTRACT,
        check_absent_nodes as check_absent_nodes,
        check_backends_agree as check_backends_agree,
        check_chunks_agree as check_chunks_agree,
        check_contract as check_contract,
        check_declared as check_declared,
        check_input_untouched as check_input_untouched,
        check_keeps_dtype as check_keeps_dtype,
        check_membership as check_membership,
        check_relabelling as check_relabelling,
        check_resume as check_resume,
        check_runs as check_runs,
        check_sends as check_sends,
        check_stragglers as check_stragglers,
        check_two_architectures as check_two_architectures,
    )
    from graphcollab.testing.edge_checks import (
        check_alone_equals_local as check_alone_equals_local,
        check_direction as check_direction,
        check_forbidden_edges as check_forbidden_edges,
        check_reach as check_reach,
    )
    from graphcollab.testing.scene import Scene as Scene

__all__ = make_lazy(__name__)
