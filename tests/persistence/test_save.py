"""`Result.save` and `load`: models that predict in another process, without the training data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from graphcollab import Method, Tasks, build_model, load, run
from graphcollab.components import Fit
from graphcollab.components.judge import FineTuned
from graphcollab.methods import ditto, dpsgd, fedavg, local
from graphcollab.persistence.save_models import briefly
from graphcollab.testing import Scene
from tests.forked import launch
from tests.raising import raises, warns
from tests.train.forged import change as change_manifest

NAMES = ("Cleveland", "Budapest", "Zurich")
QUICK = {"epochs": 1, "lr": 0.1, "batch_size": 4}
FRESH = """
import sys, json, torch
sys.path.insert(0, sys.argv[3])
from graphcollab import load
model = __import__(sys.argv[4]).make if sys.argv[4:] else None
models = load(sys.argv[1], model=model)
inputs = torch.tensor(json.loads(sys.argv[2]))
told = {n: [models.predict(n, inputs).tolist(), models.outputs(n, inputs).tolist()] for n in models.names}
print(json.dumps({"told": told, "edges": models.graph().named_edges()}))
"""


def tasks(dtype=torch.float32, targets=None, **settings):
    x = torch.linspace(-1, 1, 3 * 10 * 4).sin().mul(7).cos().view(3, 10, 4).to(dtype)
    y = (x.sum(2) > 0).long() if targets is None else targets(x)
    return Tasks.from_samples([*zip(x, y, strict=True)], names=NAMES, **settings)


def train(model=None, method=None, of=None, **settings):
    model = build_model("mlp", (4,), 2, hidden=5) if model is None else model
    return run(method or local(**QUICK), tasks() if of is None else of, model, rounds=2, **settings)


def loaded(result, folder):
    """What is saved of a run, whose model only a script can make."""
    return load(result.save(folder), model=result.model)


INPUTS = torch.tensor([[0.1, -2.0, 3.0, 0.5], [1.0, 1.0, -1.0, 0.0], [-3.0, 0.2, 0.0, 0.1]])


def told_elsewhere(folder, path="", *trusted):
    """What a fresh process finds, which has neither data nor this file."""
    script = Path(folder).with_name("fresh.py")
    script.write_text(FRESH)
    done = launch(1, script, folder, json.dumps(INPUTS.tolist()), path, *trusted)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_another_process_predicts_the_same(tmp_path):
    result = train(method=fedavg(**QUICK))
    assert result.save(tmp_path / "models") == tmp_path / "models"
    found = told_elsewhere(tmp_path / "models")
    assert list(found["told"]) == [*NAMES]
    for name in NAMES:
        with torch.no_grad():
            outputs = result.model(name)(INPUTS)
        assert found["told"][name] == [outputs.argmax(1).tolist(), outputs.tolist()]
    graph = result.graph()
    assert found["edges"] == [
        [NAMES[j], NAMES[i], w] for j, i, w in zip(*graph.edge_index.tolist(), graph.edge_weight.tolist(), strict=True)
    ]


@pytest.mark.slow
def test_a_class_of_ones_own_in_another_process(tmp_path, monkeypatch):
    (tmp_path / "mynet.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, width, act):\n"
        "        super().__init__()\n"
        "        self.body, self.head, self.norm = nn.Linear(4, width), nn.Linear(width, 2), nn.BatchNorm1d(width)\n"
        "    def forward(self, x):\n"
        "        return self.head(self.norm(self.body(x)).tanh())\n"
        "def make(name):\n"
        "    return Net(3, None)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from mynet import Net, make

    result = train(Net(3, nn.ReLU()))
    result.save(tmp_path / "models")
    found = told_elsewhere(tmp_path / "models", tmp_path, "mynet")
    for name in NAMES:
        assert found["told"][name][1] == result.model(name)(INPUTS).tolist()
    assert result.model(0).norm.num_batches_tracked.dtype == torch.int64
    with raises("missing", "model", "mynet.Net", "model="):
        load(tmp_path / "models")
    loaded = load(tmp_path / "models", model=make).model(0)
    assert loaded.norm.num_batches_tracked > 0  # running statistics are each node's own


def test_models_and_graph(tmp_path):
    result = train()
    models = load(result.save(tmp_path))
    assert models.names == NAMES
    module = models.model("Zurich")
    assert not module.training
    assert type(module) is type(result.model(2))
    assert all(map(torch.equal, module.state_dict().values(), result.model(2).state_dict().values()))
    with torch.no_grad():
        module.head.bias.fill_(7)  # a copy
    assert torch.equal(models.model(2).head.bias, result.model(2).head.bias)
    assert models.graph().name == list(NAMES)
    assert models.graph().num_nodes == 3
    assert models.about["method"] == briefly(result.method)
    assert models.about["rounds"] == 2
    assert models.about["values"]["val_metric"] == result.history.final("val_metric").tolist()
    with raises("unknown", "site", "'Zürich'", "'Zurich'", kind=KeyError):
        models.predict("Zürich", INPUTS)


def test_what_is_saved_is_what_nodes_are_judged_by(tmp_path):
    result = train(method=ditto(**QUICK))
    models = load(result.save(tmp_path))
    personal = result.method.models(result.data, result.env).tensors[0]
    assert not torch.equal(personal, result.data.x.tensors[0])
    assert torch.equal(torch.cat([p.flatten() for p in models.model(1).parameters()]), personal[1])


def test_several_architectures_and_number_types(tmp_path):
    scene = Scene.small(shared_head=True)
    result = run(local(**QUICK), scene.tasks, scene.modules, rounds=1, architecture=scene.architecture)
    module_of = dict(zip(scene.tasks.names, (scene.modules[k] for k in scene.architecture), strict=True))
    models = load(result.save(tmp_path), model=module_of.get)
    inputs = torch.linspace(-1, 1, 8, dtype=torch.float64).view(2, 4)
    for k, name in enumerate(scene.tasks.names):
        assert torch.equal(models.outputs(name, inputs), result.model(k)(inputs).detach())
        assert models.outputs(name, inputs.float()).dtype == torch.float64  # samples become what they were in training
    assert len(models.model(0).backbone) != len(models.model(1).backbone)


class Tables(nn.Module):
    """Has a constant table, a mask with infinite entries, and a frozen layer."""

    def __init__(self):
        super().__init__()
        self.frozen, self.head = nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 2)
        self.register_buffer("order", torch.tensor([3, 1, 0, 2]))
        self.register_buffer("mask", torch.tensor([0.0, -torch.inf]))

    def forward(self, inputs):
        return self.head(self.frozen(inputs)[:, self.order]) + self.mask.clamp(min=-1)


def test_buffers_and_frozen_layers(tmp_path):
    result = train(Tables())
    models = load(result.save(tmp_path), model=lambda name: Tables())
    for k in range(3):
        assert torch.equal(models.outputs(k, INPUTS), result.model(k)(INPUTS).detach())
    assert models.model(0).order.tolist() == [3, 1, 0, 2]


def test_reading_outputs():
    from graphcollab.persistence.answers import Answers

    logits = torch.tensor([[0.0, torch.log(torch.tensor(3.0))], [2.0, 0.0]])
    two = Answers.of("cross_entropy", torch.tensor([0, 1]), logits, ("ill", "well"))
    assert two.predict(logits).tolist() == ["well", "ill"]
    np.testing.assert_allclose(two.probabilities(logits)[0], [0.25, 0.75], rtol=1e-6)
    one = Answers.of(nn.BCEWithLogitsLoss(), torch.tensor([0.0, 1.0]), logits[:, 1:], ())
    assert one.predict(logits[:, 1:]).tolist() == [1, 0]
    np.testing.assert_allclose(one.probabilities(logits[:, 1:]), [[0.25, 0.75], [0.5, 0.5]], rtol=1e-6)
    several = Answers.of("bce", torch.ones(2, 2), logits, ())
    assert several.predict(logits).tolist() == [[0, 1], [1, 0]]
    assert several.probabilities(logits).shape == (2, 2)
    own = Answers.of(lambda o, t: 0, torch.tensor([0, 1]), logits, ())
    assert own.predict(logits).tolist() == [1, 0]
    with raises("unsupported", "loss"):
        own.probabilities(logits)


def test_regression(tmp_path):
    result = train(nn.Linear(4, 1), of=tasks(targets=lambda x: x.sum(2), loss="mse", metric="mse"))
    models = loaded(result, tmp_path)
    np.testing.assert_array_equal(models.predict(1, INPUTS), result.model(1)(INPUTS)[:, 0].detach().numpy())
    with raises("unsupported", "loss"):
        models.predict_proba(1, INPUTS)


@pytest.mark.parametrize(
    ("samples", "error", "says"),
    [
        (INPUTS[:, :3], ValueError, ("shape", "samples", "4")),
        (INPUTS[0], ValueError, ("shape", "samples", "4")),
        (INPUTS.index_fill(0, torch.tensor(1), torch.nan), ValueError, ("not-finite", "samples")),
        ({"age": [1]}, TypeError, ("type", "samples", "4")),
        ([["a"] * 4], TypeError, ("type", "samples")),
    ],
)
def test_samples_that_do_not_fit(tmp_path, samples, error, says):
    models = load(train().save(tmp_path))
    with raises(*says, kind=error):
        models.predict("Zurich", samples)


def test_samples_stay_as_they_are(tmp_path):
    models = loaded(train(nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 2))), tmp_path)
    inputs = INPUTS.clone()
    assert models.predict(0, inputs.numpy()).shape == models.predict(0, inputs.tolist()).shape == (3,)
    models.predict(0, inputs)
    assert torch.equal(inputs, INPUTS)


def test_an_architecture_that_only_its_code_can_make(tmp_path):
    class Inside(nn.Linear):
        pass

    result = train(Inside(4, 2))
    result.save(tmp_path)
    with raises("missing", "model", "Inside", "model=lambda name:"):
        load(tmp_path)
    models = load(tmp_path, model=lambda name: Inside(4, 2))
    assert torch.equal(models.outputs(2, INPUTS), result.model(2)(INPUTS).detach())
    with raises("shape", "parameter 'weight'", [2, 5], [2, 4]):
        load(tmp_path, model=lambda name: nn.Linear(5, 2))
    with raises("shape", "parameter 'bias'", "none"):
        load(tmp_path, model=lambda name: nn.Linear(4, 2, bias=False))
    with raises("value", "model"):
        load(tmp_path, model=lambda name: None)
    with pytest.raises((TypeError, AttributeError)):
        load(tmp_path, model=nn.Linear(4, 2))


def test_a_factory_is_asked_once_for_an_architecture_and_draws_nothing(tmp_path):
    asked = []
    result = train(nn.Linear(4, 2))
    state = torch.get_rng_state()
    load(result.save(tmp_path), model=lambda name: asked.append(name) or nn.Linear(4, 2))
    assert asked == [NAMES[0]]
    assert torch.equal(torch.get_rng_state(), state)


def test_a_model_of_build_model_that_was_changed_does_not_come_back_as_another_one(tmp_path):
    module = build_model("mlp", (4,), 2, hidden=5)
    module.backbone[2] = nn.Tanh()
    result = train(module)
    result.save(tmp_path)
    with raises("missing", "model", "MLP"):
        load(tmp_path)
    models = load(tmp_path, model=lambda name: module)
    assert torch.equal(models.outputs(1, INPUTS), result.model(1)(INPUTS).detach())


def test_models_of_build_model_come_back_by_themselves(tmp_path):
    result = train(build_model("mlp", (4,), 2, hidden=(5, 3)))
    models = load(result.save(tmp_path))
    for k in range(3):
        assert torch.equal(models.outputs(k, INPUTS), result.model(k)(INPUTS).detach())


def forge(folder, change):
    """Change what a manifest says of the models, with a checksum that fits."""
    return change_manifest(folder, lambda manifest: change(manifest["content"]))


def first(**entries):
    return lambda content: content["architectures"][0].update(entries)


MLP = {"name": "mlp", "input_shape": [4], "num_classes": 2, "hidden": 5}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (first(model=3), ("damaged",)),
        (first(model={}), ("damaged",)),
        (first(model={**MLP, "name": "os.system"}), ("damaged", None, "os.system")),
        (first(model={**MLP, "input_shape": [3]}), ("damaged",)),
        (first(model={**MLP, "hidden": 6}), ("damaged",)),
        (first(types={"a": "_inductor"}), ("damaged",)),
        (lambda content: content.pop("names"), ("damaged", None, "'names'")),
        (lambda content: content.update(names=3), ("damaged",)),
        (lambda content: content.update(members=[[]]), ("damaged",)),
        (lambda content: content.update(members=[[0, 1]]), ("damaged",)),
        (lambda content: content.update(inputs={"shape": 3, "type": "float32"}), ("damaged",)),
        (lambda content: content.update(inputs={"shape": [4], "type": "load"}), ("damaged",)),
        (lambda content: content.update(preparation={}), ("damaged",)),
        (lambda content: content.update(answers={"kind": "classes", "classes": 3}), ("damaged",)),
    ],
)
def test_manifests_that_are_made_up(tmp_path, change, says):
    folder = train(method=dpsgd(**QUICK)).save(tmp_path)
    with raises(*says):
        load(forge(folder, change))


def test_nothing_of_the_samples_is_saved_and_no_pickle(tmp_path, monkeypatch):
    import pickle

    def refuse(*args, **kwargs):
        raise AssertionError("no pickle")

    of = replace(tasks(), names=NAMES)
    of.pools["train"].inputs[3, 2] = 1234.5
    result = train(method=local(epochs=1, lr=1e-6), of=of)  # so large an input must not make the model diverge
    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    load(result.save(tmp_path))
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"1234.5" not in content
    assert np.float32(1234.5).tobytes() not in content


AGES = {"north": [30.0, 40.0, 50.0, 60.0], "south": [20.0, 25.0, None, 30.0]}


def table(target):
    rows = [(site, age, "yes" if k % 2 else "no") for site, ages in AGES.items() for k, age in enumerate(ages * 3)]
    site, age, smokes = zip(*rows, strict=True)
    return {"site": list(site), "age": list(age), "smokes": list(smokes), "y": [target(*row) for row in rows]}


@pytest.mark.parametrize("per_site", [False, True])
def test_tables_are_prepared_as_in_training(tmp_path, per_site):
    frame = table(lambda site, age, smokes: "ill" if (age or 0) > 35 else "well")
    of = Tasks.from_frame(frame, pooled="per_site" if per_site else "sums", test_fraction=0)
    result = train(nn.Linear(len(of.preparation.features), 2), of=of)
    models = loaded(result, tmp_path)
    new = {"smokes": ["no", None], "age": [55.0, 21.0]}
    for site in AGES:
        outputs = result.model(site)(of.preparation.apply(new, site)).detach()
        assert torch.equal(models.outputs(site, new), outputs)
        assert models.predict(site, new).tolist() == [of.preparation.classes[k] for k in outputs.argmax(1)]
    assert models.classes == ("ill", "well")
    assert models.preparation == of.preparation
    with raises("unknown", "column 'age'"):
        models.predict("north", {"smokes": ["no"]})


def test_values_are_in_the_tables_units(tmp_path):
    frame = table(lambda site, age, smokes: 1000.5 + 10 * (age or 0))
    of = Tasks.from_frame(frame, standardize_target=True, test_fraction=0)
    assert of.preparation.target.deviation[0] > 1
    result = train(nn.Linear(len(of.preparation.features), 1), of=of)
    models = loaded(result, tmp_path)
    new = {"smokes": ["no"], "age": [55.0]}
    raw = result.model("south")(of.preparation.apply(new)).item()
    target = of.preparation.target
    expected = target.mean[0] + target.deviation[0] * raw
    assert models.predict("south", new) == pytest.approx([expected], rel=1e-6)


@pytest.mark.parametrize("pooled", ["sums", "per_site"])
@pytest.mark.parametrize("kind", ["classes", "values"])
def test_a_preparation_goes_along(tmp_path, pooled, kind):
    draw = np.random.default_rng(0)
    age, dose = draw.normal(50, 9, 60), draw.normal(3, 1, 60)
    site = np.repeat(["Budapest", "Zurich"], 30)
    y = np.where(age + draw.normal(size=60) > 50, "ill", "well")
    if kind == "values":
        y = 1000 + 10 * age + draw.normal(size=60)
    table = {"site": site, "age": age, "dose": dose, "y": y}
    tasks = Tasks.from_frame(table, pooled=pooled, standardize_target=kind == "values")
    result = run(local(lr=0.3), tasks, nn.Linear(2, 2 if kind == "classes" else 1), rounds=40)
    models = loaded(result, tmp_path)
    assert models.preparation == tasks.preparation
    mine = {name: values[30:] for name, values in table.items() if name != "site"}
    said = models.predict("Zurich", mine)
    np.testing.assert_array_equal(said, models.predict(1, {**mine, "site": site[30:]}))
    if kind == "classes":
        assert models.classes == ("ill", "well")
        assert (said == mine["y"]).mean() > 0.9
    else:
        assert np.abs(said - mine["y"]).mean() < 20  # where they vary by 90


def test_methods_with_another_judge(tmp_path):
    method = Method("tuned", Fit(epochs=1), judge=FineTuned(Fit(epochs=1)))
    result = train(method=method)
    models = loaded(result, tmp_path)
    assert torch.equal(models.outputs(0, INPUTS), result.model(0)(INPUTS).detach())


def test_sites_that_a_column_numbers_are_asked_for_by_number(tmp_path):
    x, y = torch.zeros(30, 2), torch.arange(30) // 10  # a site's answer is its own label, whatever it is asked
    of = Tasks.from_arrays(x, y, np.repeat([1, 2, 3], 10))
    result = run(local(lr=0.5), of, nn.Linear(2, 3), rounds=5)
    models = loaded(result, tmp_path)
    for site in (1, np.int64(1), "1"):
        assert models.predict(site, x[:1]).tolist() == [0] == result.model(site)(x[:1]).argmax(1).tolist()
    assert of.select([3, 1]).names == ("3", "1")
    assert of.select(torch.tensor([2, 0])).names == ("3", "1")
    for ask in (models.model, result.model):
        with raises("unknown", kind=KeyError):
            ask(0)
    assert list(result.models()) == ["1", "2", "3"]


def patients(**columns):
    table = {
        "site": ["a", "b"] * 10,
        "age": list(range(20)),
        "sex": ["f", "m", "m", "f"] * 5,
        "ill": [True, False] * 10,
    }
    return {**table, **columns}


@pytest.fixture(scope="module")
def hospital(tmp_path_factory):
    of = Tasks.from_frame(patients(), target="ill")
    return loaded(train(lambda given: nn.Linear(given.input_shape[0], 2), of=of), tmp_path_factory.mktemp("models"))


def test_truths_and_rows_as_dicts(hospital):
    rows = [{"age": 3, "sex": "f"}, {"sex": "m", "age": None}]
    found = hospital.predict("a", rows)
    assert found.dtype == bool
    assert found.tolist() == hospital.predict("a", {"age": [3, None], "sex": ["f", "m"]}).tolist()
    assert hospital.classes == (False, True)


def test_no_rows_have_no_answers(hospital):
    empty = {"age": [], "sex": []}
    assert hospital.predict("a", empty).shape == (0,)
    assert hospital.predict_proba("a", empty).shape == (0, 2)
    assert hospital.predict("a", np.zeros((0, 3))).shape == (0,)


@pytest.mark.parametrize(
    ("samples", "error", "says"),
    [
        ([], ValueError, ("shape", "samples")),
        ({}, ValueError, ("empty", "table")),
        ({"age": 3, "sex": "f"}, ValueError, ("shape", "column 'age'")),
        ({"age": ["70"], "sex": ["f"]}, ValueError, ("ambiguous", "column 'age'", "'70'")),
        (
            {"Age": [70], "sex": ["f"]},
            ValueError,
            ("unknown", "column 'age'", "'Age'", "'sex'"),
        ),
        (np.array([[70, "f"]], object), TypeError, ("type", "samples")),
        (
            np.zeros((4, 2)),
            ValueError,
            ("shape", "samples", "4"),
        ),
    ],
)
def test_tables_that_cannot_be_read(hospital, samples, error, says):
    with raises(*says, kind=error):
        hospital.predict("a", samples)


@pytest.mark.parametrize("ask", ["predict", "predict_proba", "outputs"])
def test_a_site_must_be_named_and_only_one(ask, tmp_path):
    pandas = pytest.importorskip("pandas")
    result = train(lambda given: nn.Linear(given.input_shape[0], 2), of=Tasks.from_frame(patients(), target="ill"))
    frame = pandas.DataFrame(patients())
    for models in (result, loaded(result, tmp_path)):
        with pytest.raises(TypeError, match="samples"):
            getattr(models, ask)(frame)
        with raises("type", "site", "0", kind=TypeError):
            getattr(models, ask)(frame["site"], frame)
        told = {name: getattr(models, ask)(name, rows) for name, rows in frame.groupby("site")}
        for name, rows in told.items():
            one = getattr(models, ask)(name, frame[frame["site"] == name].drop(columns="site"))
            assert rows.tolist() == one.tolist()


def test_values_that_training_did_not_know_are_warned_of(hospital):
    with warns("quality", "column 'sex'", "'female'"):
        hospital.predict("a", {"age": [3], "sex": ["female"]})
    for sex in (["F"], ["F", "m"]):
        with warns("quality", "column 'sex'", "'F'", "'f'") as told:
            hospital.predict("a", {"age": [3, 4][: len(sex)], "sex": sex})
        assert len(told) == 1
    hospital.predict("a", {"age": [3, 4], "sex": ["x", "m"]})  # one that is not known counts as missing


def test_dicts_need_a_preparation(tmp_path):
    models = load(train().save(tmp_path))
    with raises("type", "samples", kind=TypeError):
        models.predict("Zurich", [{"age": 3}])


def test_what_is_told_of_a_method_leaves_defaults_out():
    assert briefly(local(epochs=1)) == "Method(name='local', local=Fit())"
    text = briefly(ditto(lr=0.25))
    assert "name='ditto'" in text
    assert "SGD(lr=0.25)" in text
    assert "momentum" not in text


def test_a_result_predicts_as_what_is_saved_of_it(tmp_path):
    table = {
        "site": ["a", "b"] * 12,
        "age": [*range(24)],
        "sex": ["f", "f", "m"] * 8,
        "y": ["no", "yes", "yes", "no"] * 6,
    }
    new = {"age": [3.0, float("nan"), 40], "sex": ["f", "m", "m"]}
    tasks = Tasks.from_frame(table)
    result = run(local(lr=0.1), tasks, lambda of: nn.Linear(of.input_shape[0], 2), rounds=2)
    models = loaded(result, tmp_path / "classes")
    inputs = tasks.preparation.apply(new)
    for site in ("a", 1):
        with torch.no_grad():
            logits = result.model(site)(inputs)
        assert result.predict(site, new).tolist() == [["no", "yes"][k] for k in logits.argmax(1).tolist()]
        np.testing.assert_array_equal(result.predict_proba(site, new), logits.softmax(1).numpy())
        for name in ("outputs", "predict", "predict_proba"):
            assert getattr(result, name)(site, new).tolist() == getattr(models, name)(site, new).tolist()
    with raises("unknown", "site", kind=KeyError):
        result.predict("c", new)
    amounts = Tasks.from_frame({**table, "y": [0.5 * (7 * k % 24) for k in range(24)]}, standardize_target=True)
    result = run(local(lr=0.1), amounts, lambda of: nn.Linear(of.input_shape[0], 1), rounds=2)
    assert result.predict("a", new).tolist() == loaded(result, tmp_path / "amounts").predict("a", new).tolist()
