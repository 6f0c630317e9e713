"""How often processes meet in a round: every meeting is time in which all wait for the slowest."""

from __future__ import annotations

import pytest

from graphcollab import methods
from graphcollab.testing import Scene
from graphcollab.testing.lockstep import in_lockstep
from graphcollab.testing.planes import OWNERS

# Models come along edges once, whoever reads them (fetch), or are summed (reduce). Beyond that:
# - CGA and FC: who can answer (gather), the answers, and which are of no use (tell);
# - CoBo: the gradients of pairs, and the weights, whose stability follows from all of them (tell);
# - `directed`: the weights of senders that choose their receivers (tell);
# - DAC: what the peers know, and whom everybody meets next (concat), which all that draw peers tell;
# - FedProto: how many samples of a class there are, before prototypes are averaged (reduce);
# - IFCA: which centre every node has chosen (gather);
# - meta-L2C: gradients of the encoders and losses, in one (reduce).
MEETINGS = {
    "cga": ["gather", "fetch", "tell", "tell"],
    "cobo": ["fetch", "tell", "tell"],
    "dac": ["fetch", "concat", "concat"],
    "dfedavgm": ["fetch"],
    "directed": ["fetch", "tell"],
    "ditto": ["reduce"],
    "dpfl": ["fetch"],
    "dpsgd": ["fetch"],
    "fc": ["gather", "fetch", "tell", "tell"],
    "fedamp": ["fetch"],
    "fedavg": ["reduce"],
    "fedavg_finetuned": ["reduce"],
    "fedclassavg": ["reduce"],
    "fedproto": ["reduce", "reduce"],
    "fedsim": ["reduce"],
    "flt": ["reduce"],
    "fomo": ["fetch", "concat"],
    "heurfedamp": ["fetch"],
    "ifca": ["reduce", "gather"],
    "l2c": ["fetch"],
    "local": [],
    "mapl": ["fetch"],
    "meta_l2c": ["fetch", "reduce"],
    "oracle": ["fetch", "concat"],
    "panm": ["fetch", "concat"],
    "pens": ["fetch", "concat"],
    "pfedgraph": ["fetch"],
    "pfedsim": ["reduce"],
    "random_peers": ["fetch", "concat"],
}


def verbs_of_a_round(method, scene):
    """Return the verbs for which processes meet in the third round, but for the word at its end."""

    def play(transport):
        data, env = scene.begin(method, transport)
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
    assert verbs_of_a_round(method, Scene.small(embeds=method.embeds)) == MEETINGS[name]
