"""The contract of methods, as checks that any method can be put to, also those of extensions.

Every check takes a method, plays it on a small scene, and raises ``AssertionError`` with a message if it does not hold.
None asks which method it is: where a rule does not apply to all, the method declares it (``global_state``, ``part``),
and also what models it needs (``embeds``).
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from graphcollab.method import Method
from graphcollab.nn import Keep, Membership, NoExchange, NoWeights, Stragglers
from graphcollab.phases import Phases
from graphcollab.stack import Stacks
from graphcollab.tasks import Pool
from graphcollab.testing.compare_values import differences
from graphcollab.testing.scene import Scene
from graphcollab.train import History, load_checkpoint, save_checkpoint
from graphcollab.typing import Env

__all__ = [
    "CONTRACT",
    "check_alone_equals_local",
    "check_backends_agree",
    "check_chunks_agree",
    "check_contract",
    "check_input_untouched",
    "check_keeps_dtype",
    "check_membership",
    "check_relabelling",
    "check_resume",
    "check_runs",
    "check_stragglers",
    "check_two_architectures",
    "check_unconnected_parts",
]

AnyMethod = Method | Phases

WITHOUT_SINGLES = (8, 13, 9, 13, 10, 11)  # batches of 4 or 10 never leave a single sample, for batch normalisation
TOLERANCE = 1e-9  # relative to one: scenes are in double precision


def check_runs(method: AnyMethod) -> None:
    """A method trains: models change, stay finite, and rounds are counted."""
    scene = Scene.small(embeds=method.embeds)
    start, _ = scene.begin(method)
    data, env = scene.play(method)
    _require(data.round == 2, f"after two rounds data.round is {data.round}")
    for name, tensor in (("x", data.x), ("models", method.models(data, env))):
        _require(all(bool(torch.isfinite(t).all()) for t in tensor.tensors), f"{name} is not finite after two rounds")
    moved = any(not torch.equal(a, b) for a, b in zip(start.x.tensors, data.x.tensors, strict=True))
    _require(moved, "no model has changed after two rounds")
    _require(data.edge_weight.shape == (data.edge_index.shape[1],), "edge_weight is not one number per edge")


def check_keeps_dtype(method: AnyMethod) -> None:
    """Models and edge weights keep the number type the models began with."""
    for dtype in (torch.float32, torch.float64):
        data, env = Scene.small(dtype, embeds=method.embeds).play(method)
        kinds = {tensor.dtype for tensor in (*data.x.tensors, *method.models(data, env).tensors, data.edge_weight)}
        _require(kinds == {dtype}, f"models of {dtype} have become {sorted(map(str, kinds))}")


def check_input_untouched(method: AnyMethod) -> None:
    """A round returns new ``Data`` and changes nothing in the old one, in the tasks or in the modules."""
    scene = Scene.small(embeds=method.embeds)
    data, env = scene.begin(method)
    data = method.play(data, env)
    parameters = [list(module.parameters()) for module in scene.modules]
    before = copy.deepcopy((data, scene.tasks, parameters))
    method.models(method.play(data, env), env)
    changed = differences(before, (data, scene.tasks, parameters))
    _require(not changed, f"a round changed its input in place: {changed}")


def check_relabelling(method: AnyMethod) -> None:
    """Putting the nodes in another order puts the result in that order and changes nothing else."""
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    scene = Scene.small(embeds=method.embeds)
    edges = _ring(6)
    moved = scene.replace(tasks=scene.tasks.select(order), edge_index=order.argsort()[edges])
    (one, env), (two, other) = scene.replace(edge_index=edges).play(method), moved.play(method)
    _close(_rows(method.models(one, env))[order], _rows(method.models(two, other)), "models of relabelled nodes")
    _close(_dense(one)[order][:, order], _dense(two), "edge weights of relabelled nodes")
    _close(one.bytes_sent[order], two.bytes_sent, "bytes sent by relabelled nodes")


def check_alone_equals_local(method: AnyMethod) -> None:
    """A node without neighbours does what its local update alone does (unless the method has global state)."""
    if method.global_state:
        return
    scene = Scene.small(embeds=method.embeds)
    edges = _ring(5)  # node 5 has no neighbours
    together = _rows(scene.replace(edge_index=edges).models(method))[5]
    nobody = torch.empty(2, 0, dtype=torch.int64)
    alone = scene.replace(tasks=scene.tasks.select([5]), edge_index=nobody).models(_local_only(method))
    _close(together, _rows(alone)[0], "the model of a node without neighbours")


def check_unconnected_parts(method: AnyMethod) -> None:
    """Parts of the graph that are not connected do not influence each other (unless the method has global state)."""
    if method.global_state:
        return
    edges = torch.cat([_ring(3), _ring(3) + 3], 1)
    scene = Scene.small(embeds=method.embeds).replace(edge_index=edges)
    pool = scene.tasks.pools["train"]
    owners = torch.cat([split.of(k) for split in scene.tasks.splits.values() for k in (3, 4, 5)])
    targets = pool.targets.index_copy(0, owners, (pool.targets[owners] + 1) % 3)
    other = scene.replace(tasks=replace(scene.tasks, pools={"train": Pool(pool.inputs, targets)}))
    one, two = _rows(scene.models(method)), _rows(other.models(method))
    _close(one[:3], two[:3], "models of nodes that are not connected to those whose data changed")
    _require(not torch.allclose(one[3:], two[3:]), "other data made no difference to the nodes that own them")


def check_backends_agree(method: AnyMethod) -> None:
    """The stacked and the loop backend give the same result."""
    scene = Scene.small(embeds=method.embeds)
    vmap, loop = (_rows(scene.replace(backend=backend).models(method)) for backend in ("vmap", "loop"))
    _close(vmap, loop, "models of the two backends")


def check_chunks_agree(method: AnyMethod) -> None:
    """How many rows are computed at a time makes no difference."""
    scene = Scene.small(embeds=method.embeds)
    few, many = (_rows(scene.replace(backend="vmap", chunk=chunk).models(method)) for chunk in (2, 6))
    _close(few, many, "models computed two and six rows at a time")


def check_resume(method: AnyMethod) -> None:
    """Going on from a checkpoint equals going on without one, bit for bit: all state is in the ``Data``."""
    _resume(method, Scene.small(embeds=method.embeds))


def check_two_architectures(method: AnyMethod) -> None:
    """Nodes of two architectures that share a head can collaborate on it; the rest stays with the node.

    Give a method that mixes the part ``head``, or nothing.
    """
    scene = Scene.small(sizes=WITHOUT_SINGLES, shared_head=True, embeds=method.embeds)
    data, env = scene.play(method)
    kept = method.models(data, env)
    _require(len(kept.specs) == 2, f"two architectures have become {len(kept.specs)}")
    _require(all(bool(torch.isfinite(t).all()) for t in kept.tensors), "models are not finite after two rounds")
    one, _ = scene.play(method, rounds=1)
    own, _ = scene.play(_local_only(method), rounds=1)
    for spec, mixed, alone in zip(one.x.specs, one.x.tensors, own.x.tensors, strict=True):
        columns = spec.columns("backbone")
        _close(mixed[:, columns], alone[:, columns], "the part of the models that is not mixed")


def check_stragglers(method: AnyMethod) -> None:
    """Nodes that are away or late do no harm: nobody waits for them, and one that is away keeps its model.

    (Not where the method has global state: what a server sends may reach nodes at rest.) Stragglers of probability 0
    change nothing, bit for bit.
    """
    scene = Scene.small(embeds=method.embeds)
    (one, _), (two, _) = scene.play(method), scene.replace(attend=Stragglers()).play(method)
    changed = differences(one, two)
    _require(not changed, f"stragglers of probability 0 change {changed}")
    scene = scene.replace(attend=Stragglers(drop=0.3, late=0.3))
    data, env = scene.begin(method)
    for _ in range(4):
        data = _play_with_absent(method, data, env)
    _resume(method, scene)


def check_membership(method: AnyMethod) -> None:
    """Nodes join and leave: one that is not there keeps its model and sends nothing; one that has joined trains."""
    attend = Membership(joins={1: 2}, leaves={4: 2})
    data, env = Scene.small(embeds=method.embeds).replace(attend=attend).begin(method)
    start = _rows(data.x)
    sent = []
    for _ in range(4):
        data = _play_with_absent(method, data, env)
        sent.append(data.bytes_sent)
    _require(bool((sent[1][1] == 0) & (sent[3][4] == sent[1][4])), "a node that is not there has sent something")
    _require(not torch.equal(_rows(data.x)[1], start[1]), "a node that has joined has not trained")


def _play_with_absent(method: AnyMethod, data: Data, env: Env) -> Data:
    """Play a round and check what holds where some nodes are absent."""
    there, _ = env.attend.at_work(data, env) if env.attend else (data.present, data.present)
    before = copy.deepcopy(data)
    after = method.play(data, env)
    changed = differences(before, data)
    _require(not changed, f"a round with stragglers changed its input in place: {changed}")
    both = ("x", data.x, after.x), ("models", method.models(data, env), method.models(after, env))
    for name, old, new in both:
        _require(bool(torch.isfinite(_rows(new)).all()), f"{name} is not finite where nodes are absent")
        same = torch.equal(_rows(old)[~there], _rows(new)[~there])
        _require(method.global_state or same, f"{name} of a node that was absent has changed")
    _require(bool(torch.isfinite(after.edge_weight).all()), "edge_weight is not finite where nodes are absent")
    return after


CONTRACT: tuple[Callable[[AnyMethod], None], ...] = (
    check_runs,
    check_keeps_dtype,
    check_input_untouched,
    check_relabelling,
    check_alone_equals_local,
    check_unconnected_parts,
    check_backends_agree,
    check_chunks_agree,
    check_resume,
    check_stragglers,
    check_membership,
)
"""The checks that hold for every method; `check_two_architectures` needs one that mixes a shared part."""


def check_contract(method: AnyMethod) -> None:
    """Put a method to every check in `CONTRACT`.

    Raises:
        AssertionError: If a check does not hold; the message names it.

    Example:
        >>> from graphcollab.methods import dpsgd
        >>> check_contract(dpsgd())
    """
    for check in CONTRACT:
        try:
            check(method)
        except AssertionError as error:
            raise AssertionError(f"{method.name}, {check.__name__}: {error}") from error


def _resume(method: AnyMethod, scene: Scene) -> None:
    data, env = scene.play(method, rounds=1)
    history = History(scene.tasks.names, "accuracy", True)
    with tempfile.TemporaryDirectory() as folder:
        restored, _, _ = load_checkpoint(save_checkpoint(folder, data, history, {}))
    fresh = scene.begin(method)[1]
    straight, resumed = data, restored
    for _ in range(2):
        straight, resumed = method.play(straight, env), method.play(resumed, fresh)
    changed = differences(straight, resumed)
    _require(not changed, f"a resumed run differs from an uninterrupted one in {changed}")


def _local_only(method: AnyMethod) -> AnyMethod:
    """Return a method without its collaboration."""
    if isinstance(method, Phases):
        return Phases(_plain(_local_only(method.method)), method.until, _local_only(method.next))
    rewire = Keep() if method.finds_peers else method.rewire
    return method.replace(weigh=NoWeights(), exchange=NoExchange(), rewire=rewire, global_state=False)


def _plain(method: AnyMethod) -> Method:
    if not isinstance(method, Method):
        raise TypeError(f"the first phase must be a Method, got {type(method).__name__}")
    return method


def _ring(count: int) -> Tensor:
    """Return both directions of a ring, [2, 2 K]."""
    node = torch.arange(count)
    forth = torch.stack([node, (node + 1) % count])
    return torch.cat([forth, forth.flip(0)], 1)


def _rows(models: Stacks) -> Tensor:
    """Return parameters and buffers of all nodes, [K, columns]."""
    return models.tensors[0]


def _dense(data: Data) -> Tensor:
    """Return the edge weights as a matrix [K, K], receivers in rows."""
    matrix = data.edge_weight.new_zeros(data.num_nodes, data.num_nodes)
    return matrix.index_put((data.edge_index[1], data.edge_index[0]), data.edge_weight)


def _close(one: Tensor, two: Tensor, what: str) -> None:
    apart = float((one - two).abs().max())
    _require(apart <= TOLERANCE * max(1.0, float(one.abs().max())), f"{what} differ by up to {apart:.3g}")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)
