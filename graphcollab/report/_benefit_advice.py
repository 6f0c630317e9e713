"""What to do after a benefit was asked for: by what to collaborate, or what would tell."""

from __future__ import annotations

import math

from graphcollab.findings import Finding
from graphcollab.gains import Benefit, Gain
from graphcollab.naming import few
from graphcollab.report._gains import bounded, by_whom, models, scale_of, site_of

MANY = 1000  # times as many samples, from which on no estimate is told


def advice(benefit: Benefit) -> Finding | None:
    """Return what to do, if anything follows.

    Its subject is ``"collaborate"``, ``"leave-out"``, ``"starred"``, ``"again"``, ``"alone"``, ``"longer"`` or
    ``"undecided"``.
    """
    return _on_evidence(benefit) or _on_harm(benefit) or _on_constants(benefit) or _undecided(benefit)


def _advice(what: str, message: str, **numbers: object) -> Finding:
    return Finding("advice", what, message, numbers)


def _on_evidence(benefit: Benefit) -> Finding | None:
    """Say by what to collaborate, where there is evidence of a gain."""
    if found := [gain for gain in benefit.overall if gain.verdict == "gains"]:
        best = max(found, key=lambda gain: gain.gain)
        worse = [site_of(benefit, g.site) for g in benefit.gains if g.by == best.by and g.verdict == "loses"]
        but = f"; but train {few(worse)} alone, where there is evidence of a loss" * bool(worse)
        return _advice("collaborate", f"So let them collaborate {by_whom(best.by)}{but}.", by=best.by, alone=worse)
    if groups := [gain for gain in benefit.group_gains if gain.verdict == "gains"]:
        return _leave_out(benefit, max(groups, key=lambda gain: gain.gain))
    if any(one.helps for one in (benefit, *benefit.also.values())):
        said = "So collaborate where a star says that a site gains, by what it gains by; for the others train alone."
        return _advice("starred", said)
    return None


def _leave_out(benefit: Benefit, group: Gain) -> Finding:
    """Say that a site had better not collaborate."""
    site = site_of(benefit, group.site.removeprefix("all but "))
    said = (
        f"So do not let all collaborate: train {site} alone, and ask again without it, with new rows if you can, since "
        "these have shown which site to leave out."
    )
    return _advice("leave-out", said, alone=[site])


def _again(benefit: Benefit) -> Finding:
    """Say that a quick run decides nothing."""
    said = f"So nothing is decided: this was a quick run ({benefit.quick}). Ask again with the usual numbers first."
    return _advice("again", said, quick=benefit.quick)


def _on_harm(benefit: Benefit) -> Finding | None:
    """Say what to do where there is evidence of a loss, and none of a gain."""
    if not any(gain.verdict == "loses" for gain in benefit.overall):
        return None
    if benefit.quick:
        return _again(benefit)
    best = best_group(benefit)
    likely = best is not None and best.low > 0  # to gain by its own interval
    return _leave_out(benefit, best) if best is not None and likely else _advice("alone", "So train alone.")


def best_group(benefit: Benefit) -> Gain | None:
    """Return what the group of all but one gains that gains most, if models of such groups have a part in it."""
    gains = [] if benefit.by_constants("without") else benefit.group_gains
    return max(gains, key=lambda gain: gain.gain, default=None)


def _on_constants(benefit: Benefit) -> Finding | None:
    """Say what to do where models learned nothing."""
    if not (stood := [arm for arm in ("alone", *benefit.arms) if benefit.untold(arm)]):
        return None
    said = (
        f"So nothing can be said yet: models {' and '.join(map(models, stood))} learned no more than {benefit.flat}. "
        "Train for longer, rounds=..., or by larger steps, lrs=...; if that changes nothing, what they are given may "
        "tell nothing of the target."
    )
    return _advice("longer", said, models=stood)


def _undecided(benefit: Benefit) -> Finding | None:
    """Say what would tell, where there is no evidence of anything."""
    if benefit.quick:
        return _again(benefit)
    tested = [gain for gain in benefit.overall if gain.detectable > 0]
    if not tested:
        return None
    if all(gain.high <= 0 for gain in tested):
        return _advice("alone", "So train alone.")
    said = "So this is undecided, which is not a no. Until more is known train alone, or ask again with more samples"
    times = {gain.by: _times_as_many(gain, benefit.relative) for gain in tested}
    best = min(tested, key=lambda gain: times[gain.by])
    if not times[best.by] < MANY:
        return _advice("undecided", f"{said}.")
    many = float(f"{times[best.by]:.2g}")
    said = (
        f"{said}: if the gain {by_whom(best.by)} is indeed {bounded(best.gain, *scale_of(benefit)[:2])}, it would take "
        f"about {many:g} times as many to find it (an estimate: what can be found shrinks with the square root of "
        "their number)."
    )
    return _advice("undecided", said, by=best.by, gain=best.gain, times=many)


def _times_as_many(gain: Gain, relative: bool) -> float:
    """Estimate how many times as many samples it would take to find a gain; infinity where there seems to be none."""
    if not (math.isfinite(gain.gain) and math.isfinite(gain.detectable) and 0 < gain.gain < gain.detectable):
        return math.inf
    seen, needed = (-math.log1p(-one) if relative else one for one in (gain.gain, gain.detectable))
    return (needed / seen) ** 2
