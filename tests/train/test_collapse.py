"""What a run says where learned weights have come to tell nodes nothing, and where it says nothing."""

from __future__ import annotations

import json
import math
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import pytest
import torch
from torch_geometric.data import Data

from graphcollab import Method, Phases, Tasks, compare, methods, report, run
from graphcollab.analysis import Comparison
from graphcollab.analysis.metrics.weight_spread import weight_agreement
from graphcollab.analysis.shared_samples import Samples
from graphcollab.analysis.trial import Trial
from graphcollab.components import ApplyTransform, Exchange, Exchanger, Fit, Formula, KeepWeights, Participation
from graphcollab.engine import SGD
from graphcollab.methods import dpfl, fc, fedamp, fedavg, flt, heurfedamp, l2c, local, meta_l2c, pfedgraph, random_peers
from graphcollab.models import MLP
from graphcollab.testing import Scene
from graphcollab.train import Finding
from graphcollab.transforms import DropWeakest, WithSelfLoops
from tests.methods.quick import quick, settings_of
from tests.raising import raises, warns

ALONE, UNIFORM, STILL = "own model only", "uniform weights", "still equal weights"
EVERYBODY = tuple(Scene.small(torch.float32).tasks.names)


@dataclass(frozen=True)
class Given(Formula):
    """Weights that are said to be learned: the own model's, and of the others j + 1/tilt shares from a round on."""

    own: float = 1 / 6
    tilt: float = 0.0
    until: int = 100
    others: int = 6

    origin: ClassVar[Literal["learned"]] = "learned"
    settling: ClassVar[int] = 7

    def weights(self, data, env):
        sender, receiver = data.edge_index
        loop = sender == receiver
        share = 1 + (self.tilt if data.round < self.until else 0) * sender.double()
        share = share.masked_fill(loop | (sender >= self.others), 0)
        total = torch.zeros(data.num_nodes, dtype=torch.float64).index_add(0, receiver, share)
        return torch.where(loop, self.own, (1 - self.own) * share / total[receiver])


def averaging(rewire=None, weigh=None, **settings):
    fit = Fit(steps=1, batch_size=4, optimizer=SGD(lr=0.1))
    method = Method("given", fit, weigh or Given(**settings), Exchange("zero", "x"), prepare=WithSelfLoops())
    return method if rewire is None else method.replace(rewire=rewire)


def play(method, rounds=7, folder=None, **settings):
    tasks = Scene.small(torch.float32).tasks
    model = lambda: MLP(4, (6,), 3)  # noqa: E731
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = run(method, tasks, model, rounds=rounds, checkpoint=folder, **settings)
    return result, [str(one.message) for one in caught]


def kinds(*args, **settings):
    return [finding.code for finding in play(*args, **settings)[0].history.findings]


def test_all_weight_on_the_own_model():
    result, told = play(averaging(own=0.995))
    [finding] = result.history.findings
    assert (finding.numbers["round"], finding.code, finding.numbers["nodes"]) == (7, ALONE, EVERYBODY)
    assert told == [finding.message]
    assert finding.numbers["own"] == pytest.approx(0.995)
    assert result.summary()["findings"] == [finding.message]


def test_all_weight_on_one_other_model():
    """Of two who are heard, the second has a million times the weight: five nodes copy it, and it copies the first."""
    result, told = play(averaging(own=0.0, others=2, tilt=1e6))
    [finding] = result.history.findings
    assert (finding.numbers["round"], finding.code, finding.numbers["nodes"]) == (7, "one model only", EVERYBODY)
    assert told == [finding.message]
    assert (finding.numbers["judged"], finding.numbers["others"]) == (6, 6)
    assert kinds(averaging(own=0.0, others=2, tilt=10.0)) == []  # 11/12 at most


def test_uniform_weights():
    result, told = play(averaging())
    [finding] = result.history.findings
    assert (finding.numbers["round"], finding.code, finding.numbers["nodes"]) == (7, UNIFORM, EVERYBODY)
    assert told == [finding.message]
    assert (finding.numbers["judged"], finding.numbers["own"]) == (6, pytest.approx(1 / 6))


def test_what_is_in_between_is_not_mentioned():
    """Evenness of 5 shares 1 + tilt j: with 0.05 it is 0.9987, with 0.03 0.9995."""
    for settings in ({"own": 0.98, "tilt": 0.05}, {"tilt": 0.05}, {"others": 3}):
        result, told = play(averaging(**settings))
        assert (result.history.findings, told) == ([], [])
        assert "findings" not in result.summary()
    assert kinds(averaging(tilt=0.03)) == [UNIFORM]


def test_weights_need_time():
    assert kinds(averaging(), rounds=6) == [STILL]  # `settling` is 7
    assert kinds(averaging(own=1.0), rounds=4) == []
    assert kinds(averaging(own=1.0), rounds=5) == [ALONE]
    assert kinds(Phases(averaging(tilt=1.0), 5, averaging()), rounds=11) == [STILL]
    assert kinds(Phases(averaging(tilt=1.0), 5, averaging()), rounds=12) == [UNIFORM]


def test_equal_weights_after_few_rounds_are_told_without_a_warning():
    result, told = play(averaging(), rounds=3)
    [finding] = result.history.findings
    assert (finding.numbers["round"], finding.code, finding.numbers["nodes"], told) == (3, STILL, EVERYBODY, [])
    assert result.summary()["findings"] == [finding.message]
    assert kinds(averaging(tilt=0.05), rounds=3) == []  # an evenness of 0.9987


def test_one_neighbor_alone_is_not_uniform_but_may_be_unheard():
    pairs = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    assert kinds(averaging(), graph=pairs) == []
    assert kinds(averaging(own=1.0), graph=pairs) == [ALONE]


def test_nodes_without_neighbors_do_not_count():
    edges = torch.tensor([[0, 1, 0, 2, 1, 2], [1, 0, 2, 0, 2, 1]])  # nodes 3 to 5 are alone
    result, _ = play(averaging(own=1 / 3), graph=edges)
    assert [finding.numbers["nodes"] for finding in result.history.findings] == [EVERYBODY[:3]]
    result, _ = play(averaging(own=1.0), graph=edges)
    assert [finding.numbers["nodes"] for finding in result.history.findings] == [EVERYBODY[:3]]


def test_nodes_that_are_not_there_do_not_count():
    """Those that are away have all weight themselves, and so have those that hear nobody."""
    assert kinds(averaging(own=0.3, tilt=1.0), participation=Participation(drop=0.8)) == []
    assert kinds(averaging(), participation=Participation(drop=0.3)) == [UNIFORM]  # what they leave is the own model's
    assert kinds(averaging(own=0.5), participation=Participation(drop=0.3)) == []


def test_a_node_that_gives_itself_more_is_not_averaging():
    """Of six weights, five alike: the entropy of all is 0.988 with an own weight of 0.25, and 0.9996 with 0.18."""
    assert kinds(averaging(own=0.5)) == kinds(averaging(own=0.25)) == kinds(averaging(own=0.05)) == []
    assert kinds(averaging(own=0.18)) == [UNIFORM]


def test_weights_that_are_not_learned_may_be_what_they_are():
    assert kinds(fedavg(steps=1)) == []
    kept = averaging(weigh=KeepWeights())
    index = torch.cartesian_prod(torch.arange(6), torch.arange(6)).T
    every = Data(edge_index=index, edge_weight=torch.full((36,), 1 / 6), num_nodes=6)
    assert kinds(kept.replace(exchange=Exchange("x", "update")), graph=every) == []
    assert kinds(Phases(averaging(), 3, kept), rounds=20) == [UNIFORM]
    assert kinds(Phases(averaging(), 3, fedavg(steps=1)), rounds=20) == []


def test_equal_weights_of_neighbors_that_were_chosen_say_something():
    drop = ApplyTransform(DropWeakest(count=3), at=1)
    assert kinds(averaging(drop, tilt=1.0, until=3)) == []
    assert kinds(averaging(drop, own=1.0)) == [ALONE]


def test_neighbors_that_were_dropped_by_equal_weights():
    result, told = play(averaging(ApplyTransform(DropWeakest(count=2), at=5)), rounds=8)
    [finding] = result.history.findings
    assert (finding.numbers["round"], finding.code) == (6, UNIFORM)
    assert told == [finding.message]
    assert finding.message.endswith("By these weights neighbors were dropped after round 6, at random")
    at_once = averaging(ApplyTransform(DropWeakest(count=2), at=0))
    assert kinds(at_once, rounds=2) == [UNIFORM]  # however few rounds were played
    assert kinds(averaging(ApplyTransform(DropWeakest(count=2), at=5), tilt=1e-3)) == []


def test_of_early_stopping_the_state_that_is_returned_counts(points):
    """Points go from 0 to 4, a tenth of the way each step, and are validated at 1, which they pass in round 3."""
    scene = points([[[4.0]], [[4.0]]], [[[1.0]], [[1.0]]]).scene
    play = partial(run, averaging(own=1.0), scene.tasks, scene.modules, rounds=9)
    stopped = play(patience=6)
    assert (stopped.data.round, stopped.history.rounds[-1], stopped.history.findings) == (3, 9, [])
    with warns("quality", "weights", "2"):
        play()


def test_a_resumed_run_finds_the_same(tmp_path):
    method = averaging(tilt=1.0, until=8)
    straight, _ = play(method, rounds=9)
    assert kinds(method, 7, tmp_path) == []
    for _ in range(2):  # also if nothing is left to be played
        resumed, told = play(method, 9, tmp_path)
        assert resumed.history.findings == straight.history.findings
        assert told == [finding.message for finding in straight.history.findings]
        assert len(told) == 1
    drop = averaging(ApplyTransform(DropWeakest(count=2), at=5))
    straight, _ = play(drop, rounds=8)
    play(drop, 7, tmp_path / "drop")
    resumed, told = play(drop, 8, tmp_path / "drop")
    assert resumed.history.findings == straight.history.findings
    assert len(told) == 1
    longer, _ = play(averaging(), 9, tmp_path / "longer")
    play(averaging(), 8, tmp_path / "longer again")
    again, _ = play(averaging(), 9, tmp_path / "longer again")
    assert again.history.findings == longer.history.findings


def test_logs_hold_what_was_found_at_the_end(tmp_path):
    result, _ = play(averaging())
    told = json.loads(result.history.to_json(tmp_path / "log.json").read_text())["findings"]
    assert [one["code"] for one in told] == [one.code for one in result.history.findings] == [UNIFORM]


def test_methods_that_learn():
    """Adam moves no logit at a step of 0; large weight decay, in the paper's form, leaves none of the encoders."""
    still = {"epochs": 1, "batch_size": 4, "mixer_lr": 0.0}
    assert kinds(l2c(**still), rounds=20) == [UNIFORM]
    assert kinds(l2c(**still), rounds=19) == [STILL]
    form = {"score": "product", "normalize": False, "own": "softmax", "decoupled": False}
    shrinking = meta_l2c(epochs=1, batch_size=4, mixer_lr=0.1, mixer_weight_decay=1e3, **form)
    assert kinds(shrinking, rounds=20) == [UNIFORM]
    assert kinds(l2c(epochs=1, batch_size=4), rounds=20) == []
    assert kinds(meta_l2c(epochs=1, batch_size=4), rounds=20) == []


@pytest.mark.filterwarnings("ignore:given:RuntimeWarning")
def test_comparisons_say_so():
    tasks = Scene.small(torch.float32).tasks
    test = type(tasks)(tasks.pools, {**tasks.splits, "test": tasks.splits["val"]}, tasks.names)
    make = {"fine": partial(averaging, tilt=1.0), "own": partial(averaging, own=1.0)}
    found = compare(make, lambda seed: test, lambda: MLP(4, (6,), 3), range(2), rounds=5)
    assert [[f.code for f in trial.findings] for trial in found.chosen["own"]] == [[ALONE], [ALONE]]
    assert found.rows()["own"]["findings"] == {ALONE: 2}
    assert found.rows()["fine"]["findings"] == {}
    lines = str(report.results_table(found)).splitlines()
    assert lines[0].split("  ")[0] == "method"
    assert "found" in lines[0]
    assert ALONE in lines[3]
    assert ALONE not in lines[2]
    told = json.loads(report.results_json(found))["methods"]
    assert told["own"]["findings"] == {ALONE: 2}
    assert told["fine"]["findings"] == {}


def test_seeds_whose_weights_are_equal_have_no_say_in_agreement():
    """Of weights that differ by a little, the correlation is that of noise."""
    noise = [1 / 6 + 1e-3 * torch.randn(6, 6, generator=torch.Generator().manual_seed(s)) for s in range(4)]
    samples = Samples(train=30, test=10, share=1.0, of_nodes="a", of_all="a")
    still = Finding(STILL, "weights", "...")

    def agreement(*even):
        trials = [
            Trial("m", s, {}, 0.0, {}, weights=noise[s], samples=samples, findings=(still,) * (s in even))
            for s in range(4)
        ]
        return Comparison(trials, {"m": trials}, True).agreement("m")

    assert agreement() == pytest.approx(float(weight_agreement(torch.stack(noise))))
    assert agreement(0) == pytest.approx(float(weight_agreement(torch.stack(noise[1:]))))
    assert math.isnan(agreement(0, 1, 2))


def nodes(sizes=(40,) * 5):
    """Nodes with the same task and as many samples as are given."""
    draw = torch.Generator().manual_seed(0)
    means, labels = torch.randn(4, 10, generator=draw), torch.arange(40) % 4
    return Tasks.from_samples(
        [(means[labels[:n]] + torch.randn(n, 10, generator=draw), labels[:n]) for n in sizes], val_fraction=0.25
    )


UNEVEN = (40, 20, 36, 28, 32)
COMPUTED = [
    (fedamp(sigma=1e-6), 15, (40,) * 5, ALONE),
    (fedamp(sigma=1e3), 15, (40,) * 5, ALONE),
    (fedamp(sigma=1e3, alpha=1e3), 20, (40,) * 5, UNIFORM),
    (heurfedamp(own=1.0), 5, (40,) * 5, ALONE),
    (heurfedamp(), 20, (40,) * 5, UNIFORM),
    (pfedgraph(), 20, (40,) * 5, UNIFORM),
    (pfedgraph(), 20, UNEVEN, UNIFORM),
    (pfedgraph(alpha=1e-6, snap=None), 5, (40,) * 5, ALONE),
    (dpfl(budget=1), 5, (40,) * 5, ALONE),
    (fc(quantile=0.1), 5, (40,) * 5, ALONE),
    (fc(tau=math.inf), 20, (40,) * 5, UNIFORM),
    (flt(threshold=1e-6), 5, (40,) * 5, ALONE),
    (flt(threshold=math.inf), 5, UNEVEN, UNIFORM),
]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "rounds", "sizes", "kind"), COMPUTED)
def test_weights_that_are_computed_may_say_nothing_too(method, rounds, sizes, kind):
    with warns("quality", "weights", "computed") as told:
        result = run(method, nodes(sizes), lambda: torch.nn.Linear(10, 4), rounds=rounds)
    [finding] = result.history.findings
    assert (finding.code, len(finding.numbers["nodes"])) == (kind, 5)
    assert finding.message == str(told[0].message)


def test_weights_that_amount_to_local_training_or_to_averaging_are_that():
    """What the findings say is so: the models are those of the plain methods."""
    settings = {"lr": 0.05, "weight_decay": 0.0}
    model = lambda: torch.nn.Linear(10, 4)  # noqa: E731
    play = lambda method: run(method, nodes(UNEVEN), model, rounds=5).stacks.part("all")  # noqa: E731
    with warns("quality", "weights"):
        alone = play(fedamp(lam=0.0, sigma=1e-6, **settings))
    assert torch.allclose(alone, play(local(**settings)), atol=1e-5)
    average = play(pfedgraph(snap=0.0, lam=0.0, momentum=0.0, batch_size=10, **settings))
    assert torch.allclose(average, play(fedavg(**settings)), atol=1e-5)


def test_computed_weights_that_tell_nodes_apart_are_not_mentioned():
    """DPFL listens to nobody between two choices, by its rule."""
    for method, rounds in ((fedamp(), 20), (dpfl(), 15), (dpfl(), 16), (fc(), 20), (random_peers(), 20)):
        assert run(method, nodes(), lambda: torch.nn.Linear(10, 4), rounds=rounds).history.findings == []


SAMPLED = [name for name in methods.__all__ if "fraction" in settings_of(name)]


@pytest.mark.parametrize("name", SAMPLED)
def test_a_fraction_that_leaves_one_node_at_work_is_refused_where_nothing_would_be_received(name):
    scene = Scene.small(torch.float32, embeds=methods.get_method(name)().embeds)
    method = quick(name, fraction=0.2, warmup=1, threshold=math.inf)
    refused = raises("too-few", "fraction", "6")
    served = not method.along_edges or all(p.serves_rest for p in method.walk() if isinstance(p, Exchanger))
    with nullcontext() if served else refused:
        assert run(method, scene.tasks, scene.modules[0], rounds=2).data.messages_sent.sum() > 0
