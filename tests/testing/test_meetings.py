"""How often processes meet in a round: every meeting is time in which all wait for the slowest."""

from __future__ import annotations

import pytest
import torch

from graphcollab import methods
from graphcollab.analysis.metrics import as_metric
from graphcollab.components.state import LOOP, tell_all
from graphcollab.testing import Scene
from graphcollab.train import evaluate
from tests.testing.lockstep import begin, in_lockstep
from tests.testing.planes import OWNERS, hide

# Models come along edges once, whoever reads them (swap), or are summed (reduce). Beyond that:
# - CGA and FC: the answers;
# - CoBo: the gradients of pairs, and their products (both to the other end alone);
# - `directed`: the weights of senders that choose their receivers (tell);
# - DAC: what the peers know, and whom everybody meets next (concat), which all that draw peers tell;
# - FedProto: how many samples of a class there are, before prototypes are averaged (reduce);
# - IFCA: which center every node has chosen (gather);
# - meta-L2C: gradients of the encoders and losses, in one (reduce).
MEETINGS = {
    "cga": ["swap", "swap"],
    "cobo": ["swap", "swap", "swap"],
    "dac": ["swap", "gather", "gather"],
    "dfedavgm": ["swap"],
    "directed": ["swap", "gather"],
    "ditto": ["all_reduce"],
    "dpfl": ["swap"],
    "dpsgd": ["swap"],
    "fc": ["swap", "swap"],
    "fedamp": ["swap"],
    "fedavg": ["all_reduce"],
    "fedavg_finetuned": ["all_reduce"],
    "fedclassavg": ["all_reduce"],
    "fedproto": ["all_reduce", "all_reduce"],
    "fedsim": ["all_reduce"],
    "flt": ["all_reduce"],
    "fomo": ["swap", "gather"],
    "heurfedamp": ["swap"],
    "ifca": ["all_reduce", "gather"],
    "l2c": ["swap"],
    "local": [],
    "mapl": ["swap"],
    "meta_l2c": ["swap", "all_reduce"],
    "oracle": ["swap", "gather"],
    "panm": ["swap", "gather"],
    "partial_pooling": ["all_reduce"],
    "pens": ["swap", "gather"],
    "pfedgraph": ["swap"],
    "pfedsim": ["all_reduce"],
    "random_peers": ["swap", "gather"],
}


def verbs_of_a_round(method, scene):
    """Return the verbs for which processes meet in the third round, but for the word at its end."""

    def play(transport):
        data, env = begin(scene, method, transport)
        for _ in range(2):
            data = method.play(data, env)
        before = len(transport.meeting.verbs)
        method.play(data, env)
        return transport.meeting.verbs[before:]

    found, _ = in_lockstep(OWNERS, play)
    *verbs, last = found[0]  # the first process keeps the list
    assert last == "status"
    return verbs


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", methods.__all__)
def test_meetings_of_a_round(name):
    method = methods.get_method(name)()
    verbs = verbs_of_a_round(method, Scene.small(embeds=method.embeds))
    assert name in MEETINGS, f"add to MEETINGS how often processes meet in a round of {name}: {verbs}"
    assert verbs == MEETINGS[name]


def test_evaluations_and_those_who_look_on_are_told_all_in_one_meeting():
    """Losses and metrics of both splits, bytes, messages; and of the state whatever only some processes know."""
    method = methods.l2c()
    scene = Scene.small(embeds=method.embeds)

    def look(transport=None):
        data, env = begin(scene, method, transport)
        data = method.play(data, env)
        data = data if transport is None else hide(data, (*LOOP, *method.fields), transport.nodes)
        values = evaluate(method, data, env, as_metric(env.engine.tasks.metric))
        return values, tell_all(data, (*LOOP, *method.fields), env.plane)

    (values, data), (found, meeting) = look(), in_lockstep(OWNERS, look)
    assert meeting.verbs[-2:] == ["gather", "all_reduce"]
    assert meeting.verbs[-3] == "status"
    for told, state in found:
        assert told.keys() == values.keys()
        for name, value in values.items():
            torch.testing.assert_close(told[name], value, equal_nan=True)
        for name in ("train_loss", "bad_step", "bytes_sent", "messages_sent", "val_loss", "edge_weight"):
            torch.testing.assert_close(state[name], data[name], equal_nan=True)
