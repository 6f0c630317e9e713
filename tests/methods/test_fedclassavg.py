from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphcollab import Tasks, run
from graphcollab.components import NoExchange
from graphcollab.components.judge import FineTuned
from graphcollab.engine import AddNoise, Stacks
from graphcollab.engine.stack import ParamSpec
from graphcollab.methods import fedclassavg
from graphcollab.models import SplitModel
from graphcollab.testing import Scene
from tests.methods.forms import check_form
from tests.raising import raises

QUICK = {"epochs": 2, "batch_size": 4, "lr": 0.1, "augment": None}


class Scaled(nn.Module):
    """Outputs its input times the head's number, plus the backbone's."""

    def __init__(self):
        super().__init__()
        self.backbone, self.head = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)

    def forward(self, inputs):
        return self.head(inputs) + self.backbone(inputs)


def test_classifiers_are_averaged_by_numbers_of_samples():
    """Sizes 1 and 3, classifiers 0 and 4: (1 · 0 + 3 · 4) / 4 = 3."""
    samples = [(torch.ones(n, 1), torch.zeros(n, 1)) for n in (1, 3)]
    scene = Scene(Tasks.from_samples(samples, samples, loss="mse", metric="mse"), [Scaled()])
    for weights, expected in (("counts", 3.0), ("uniform", 2.0)):
        method = fedclassavg(lr=1e-12, contrast=0.0, augment=None, weights=weights)
        data, env = scene.begin(method)
        rows = torch.tensor([[5.0, 0.0], [7.0, 4.0]])
        data.x = data.x_init = Stacks.single(data.x.specs[0], rows)
        after = method.play(data, env)
        assert after.x.part("head").flatten().tolist() == pytest.approx([expected] * 2)
        assert after.x.part("backbone").flatten().tolist() == pytest.approx([5.0, 7.0])
        assert after.bytes_sent.tolist() == [8.0, 8.0]


@pytest.mark.parametrize("shared_head", [False, True])
def test_the_rest_of_a_model_is_what_its_own_training_makes_of_it(shared_head):
    scene = Scene.small(shared_head=shared_head, embeds=True)
    method = fedclassavg(**QUICK)
    data, _ = scene.play(method, rounds=1)
    alone, _ = scene.play(method.replace(exchange=NoExchange()), rounds=1)
    heads = alone.x.part("head")
    sizes = scene.tasks.sizes("train").double()
    torch.testing.assert_close(data.x.part("head"), (sizes @ heads / sizes.sum()).expand(6, -1))
    for spec, one, two in zip(data.x.specs, data.x.tensors, alone.x.tensors, strict=True):
        columns = spec.columns("head")
        assert torch.equal(one[:, : columns.start], two[:, : columns.start])
        assert torch.equal(one[:, columns.stop :], two[:, columns.stop :])
    assert data.bytes_sent.tolist() == [4 * 2 * (3 * 5 + 3)] * 6


def double_second(views):
    """A second view that is twice the first."""
    first, second = views.chunk(2)
    return torch.cat([first, 2 * second])


def contrast_by_hand(latent, targets, temperature, normalize):
    """The supervised contrastive loss, sample by sample."""
    rows = F.normalize(latent, dim=1) if normalize else latent  # a latent may be 0
    losses = []
    for q in range(len(rows)):
        logits = torch.stack([rows[q] @ rows[m] / temperature for m in range(len(rows)) if m != q])
        same = torch.tensor([bool(targets[m] == targets[q]) for m in range(len(rows)) if m != q])
        losses.append(-(logits - logits.exp().sum().log())[same].mean())
    return torch.stack(losses).mean()


@pytest.mark.parametrize(
    ("settings", "backend"),
    [
        ({"mu": 2.0, "contrast": 0.5, "temperature": 0.7}, "vmap"),
        ({"contrast": 3.0, "temperature": 9.0, "normalize": False}, "loop"),
    ],
)
def test_three_steps_on_all_samples_against_modules_of_their_own(settings, backend):
    """The proximal term acts from the second step on."""
    lr = 0.02
    method = fedclassavg(steps=3, batch_size=20, lr=lr, augment=double_second, **settings).replace(
        exchange=NoExchange()
    )
    scene = Scene.small(shared_head=True, embeds=True).replace(backend=backend)
    start, env = scene.begin(method)
    after = method.play(start, env)
    split, pool = scene.tasks.splits["train"], scene.tasks.pools["train"]
    for k in range(6):
        spec, row = start.x.row(k)
        module = spec.load_into(copy.deepcopy(scene.modules[k % 2]), row).train()
        anchor = [parameter.detach().clone() for parameter in module.head.parameters()]
        inputs, targets = pool.inputs[split.of(k)], pool.targets[split.of(k)]
        optimizer = torch.optim.Adam(module.parameters(), lr=lr, betas=(0.5, 0.999))
        for _ in range(3):
            optimizer.zero_grad()
            out = module(torch.cat([inputs, 2 * inputs]), embed=True)
            pull = sum((p - a).square().sum() for p, a in zip(module.head.parameters(), anchor, strict=True))
            near = contrast_by_hand(
                out.latent, targets.repeat(2), settings["temperature"], settings.get("normalize", True)
            )
            loss = F.cross_entropy(out.logits[: len(inputs)], targets) + settings["contrast"] * near
            (loss + settings.get("mu", 0.1) / 2 * pull).backward()
            optimizer.step()
        new = ParamSpec.from_module(module).flatten(module)[: spec.num_parameters]
        torch.testing.assert_close(after.x.row(k)[1][: spec.num_parameters], new, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "settings",
    [
        {"contrast": 100 / 0.07, "temperature": 100.0, "normalize": False},
        {"mu": 0.0, "steps": 3, "fraction": 0.5},
        {"contrast": 0.0, "buffers": "average"},
        {"mu": 0.0, "contrast": 0.0, "augment": AddNoise(0.1)},
    ],
)
def test_contract_of_the_options(settings):
    check_form(fedclassavg(**{**QUICK, "epochs": 1, **settings}))


def test_judged_by_classifiers_that_were_trained_once_more():
    """That is the model the next round sends, where all samples are one batch."""
    method = fedclassavg(**{**QUICK, "batch_size": 20})
    method = method.replace(judge=FineTuned(method.local))
    scene = Scene.small(embeds=True)
    data, env = scene.play(method, rounds=1)
    judged = method.models(data, env)
    sent = method.replace(exchange=NoExchange()).play(data, env).x
    torch.testing.assert_close(judged.tensors[0], sent.tensors[0], rtol=0, atol=1e-10)


def split_models(*latents):
    torch.manual_seed(0)
    return [SplitModel(nn.Linear(4, 6), (4,), 3, latent) for latent in latents]


def tasks(classes):
    draw = torch.Generator().manual_seed(0)
    targets = [torch.tensor(own).repeat(12 // len(own)) for own in classes]
    samples = [(torch.randn(len(y), 4, generator=draw) + 3 * F.one_hot(y, 4), y) for y in targets]
    return Tasks.from_samples(samples, samples, samples)


@pytest.mark.filterwarnings("ignore:.*mixes models, and architectures 0, 1:RuntimeWarning")
def test_a_node_with_a_single_class_and_a_class_that_nobody_has():
    method = fedclassavg(lr=0.02, augment=AddNoise(0.1))
    result = run(method, tasks([[0], [0, 1], [1, 0]]), split_models(5, 5), rounds=20, architecture=(0, 1, 0))
    assert min(result.history.values["test_metric"][-1].tolist()) > 0.9


def test_models_without_latents():
    with raises("missing", "node 'node 0'"):
        Scene.small().begin(fedclassavg(**QUICK))
    assert Scene.small().play(fedclassavg(**{**QUICK, "contrast": 0.0}))[0].round == 2


def test_latents_of_two_sizes():
    scene = Scene(tasks([[0, 1], [1, 2]]), split_models(4, 5), architecture=(0, 1))
    with raises("mismatch", "part 'head'"):
        scene.begin(fedclassavg(augment=None))


@pytest.mark.parametrize("settings", [{"mu": -1.0}, {"contrast": float("nan")}, {"contrast": float("inf")}])
def test_bad_weights(settings):
    with raises("value", *settings):
        fedclassavg(**settings)
