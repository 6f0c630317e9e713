from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from graphcollab import Tasks, join, run
from graphcollab.data.samples import Pool, Split
from graphcollab.methods import fedavg, partial_pooling
from graphcollab.testing import Scene, check_contract
from tests.methods.forms import check_form
from tests.methods.lines import two_lines
from tests.methods.plain import Plain
from tests.raising import raises

SIZES = (12, 16, 18, 20, 20, 22, 24, 28)
WHOLE = {"steps": 1, "batch_size": 100}  # one step a round, on all samples


def sites():
    """Eight sites of 20 rows in the mean: a law in common, and intercepts that go with the means of the inputs."""
    draw, found = np.random.default_rng(0), []
    for k, n in enumerate(SIZES):
        x = draw.normal(size=(n, 3)) + 0.2 * (k - 3.5) * np.array([1.0, -1.0, 0.5])
        found.append((x, x @ np.array([1.0, -2.0, 0.5]) - 0.8 * k + draw.normal(size=n)))
    return found


def converged(method, rounds):
    x, y = (torch.from_numpy(np.concatenate(both)) for both in zip(*sites(), strict=True))
    split = Split.from_lists("train", [*torch.arange(len(x)).split(SIZES)])
    tasks = Tasks({"train": Pool(x, y[:, None])}, {"train": split}, loss="mse", metric="mae")
    return Scene(tasks, [nn.Linear(3, 1).double()]).models(method, rounds).tensors[0].numpy()


def with_dummies():
    """Least squares with an indicator of every site: [8, 3 + 1]."""
    x, y = (np.concatenate(both) for both in zip(*sites(), strict=True))
    dummies = np.repeat(np.eye(len(SIZES)), SIZES, axis=0)
    found = np.linalg.lstsq(np.concatenate([x, dummies], 1), y, rcond=None)[0]
    return np.stack([np.append(found[:3], intercept) for intercept in found[3:]])


def shrunk(x, y, center, lam):
    """Minimize Σ (x b + a - y)² + λ/2 (‖b - center‖² + (ã - ȳ)²), where ã = a + b x̄ is ȳ without the pull, too."""
    apart, rest = x - x.mean(0), y - y.mean()
    slopes = np.linalg.solve(2 * apart.T @ apart + lam * np.eye(3), 2 * apart.T @ rest + lam * center)
    return np.append(slopes, y.mean() - x.mean(0) @ slopes)


def test_common_slopes_are_least_squares_with_dummies():
    found = converged(partial_pooling(lr=0.25, **WHOLE), 100)
    assert np.abs(found - with_dummies()).max() < 1e-9
    uniform = converged(partial_pooling(lr=0.25, weights="uniform", **WHOLE), 40)
    assert np.abs(uniform - with_dummies()).max() > 1e-3  # rows count alike, not sites


def test_own_slopes_are_shrunk_towards_the_common_ones():
    center = with_dummies()[0, :3]
    for lam in (0.1, 5.0, 300.0):
        found = converged(partial_pooling(lam=lam, lr=0.25, **WHOLE), 100)
        assert np.abs(found - [shrunk(x, y, center, lam) for x, y in sites()]).max() < 1e-8


def test_intercepts_are_shrunk_towards_their_mean():
    """Of whole batches it ends where gradients are 0, with a mean taken before the pull: a = ã - c (a - mean ã)."""
    lr, nu = 0.2, 6.0
    found = converged(partial_pooling(lr=lr, shrink=nu, **WHOLE), 1500)
    x, y = (np.concatenate(both) for both in zip(*sites(), strict=True))
    counts, site = np.array(SIZES), np.repeat(np.eye(8), SIZES, axis=0)
    design = np.concatenate([x, site, np.zeros((len(x), 1))], 1)  # slopes, intercepts, their mean
    system, right = 2 * design.T @ design, 2 * design.T @ y
    system[3:11, 3:11] += nu * np.eye(8)
    system[3:11, 11] -= nu
    share, pull = counts / counts.sum(), lr * nu / counts
    system[11, 3:11], system[11, 11] = share * (1 + pull), -1 - share @ pull
    expected = np.linalg.solve(system, right)
    assert np.abs(found - np.concatenate([np.tile(expected[:3], (8, 1)), expected[3:11, None]], 1)).max() < 1e-6
    free = with_dummies()[:, 3]
    assert (np.abs(found[:, 3] - found[:, 3].mean()) < np.abs(free - free.mean())).all()


def test_shrinking_by_hand():
    """Intercepts 1 and 2, of 1 and 3 samples, have the mean 7 / 4; a step of 1 / 4 with ν = 12 makes pulls of 3, 1."""
    data, _ = two_lines().play(partial_pooling(lr=0.25, shrink=12.0, **WHOLE), rounds=1)
    assert data.x.tensors[0].tolist() == [[3.25, 1.75 - 0.75 / 4], [3.25, 1.75 + 0.25 / 2]]
    assert data.bytes_sent.tolist() == [16.0, 16.0]


def test_a_newcomer_of_few_samples_gets_an_intercept_near_the_mean():
    """Inputs and noise are 0. A fifth of the samples is for validation; steps of 0.05 leave 0.9 of a difference."""

    def share(n, steps):
        left = 0.9**steps
        return (1 - left) / (1 + 0.05 * steps * 40 / n - left)  # about n / (n + ν / 2)

    x = torch.zeros(30, 1)
    tasks = Tasks.from_samples([(x, x + level) for level in (1.0, 3.0)], loss="mse", metric="mse")
    new = Tasks.from_samples([(x[:5], x[:5] + 8)], loss="mse", metric="mse", names=["new"])
    result = run(partial_pooling(lr=0.05, shrink=40.0, weight_decay=0.0), tasks, nn.Linear(1, 1), rounds=100)
    shrunk = [result.model(k).bias.item() for k in range(2)]
    assert shrunk == pytest.approx([2 - share(24, 2), 2 + share(24, 2)], abs=1e-3)
    found = join(result, new, finetune=100).model("new").bias.item()
    assert found == pytest.approx(2 + 6 * share(4, 1), abs=1e-3)


def test_two_lines_by_hand():
    """Slopes and intercepts after a step are 1, 1 and 4, 2; the common slope is 13 / 4, weighted by 1 and 3 samples."""
    data, _ = two_lines().play(partial_pooling(lr=0.25, **WHOLE), rounds=1)
    assert data.x.tensors[0].tolist() == [[3.25, 1.0], [3.25, 2.0]]
    assert data.bytes_sent.tolist() == [8.0, 8.0]


def test_warmup_is_averaging():
    """The mean of 1, 1 and 4, 2 is 13 / 4, 7 / 4. After it models are those of `fedavg`."""
    start = partial_pooling(lr=0.25, warmup=1, **WHOLE)
    assert two_lines().play(start, rounds=1)[0].x.tensors[0].tolist() == [[3.25, 1.75]] * 2
    scene = Scene.small()
    given = {"lr": 0.2, "steps": 2, "batch_size": 100, "weight_decay": 0.0}
    average = scene.models(fedavg(**given), rounds=2).tensors[0]
    warm = scene.models(partial_pooling(warmup=2, shrink=3.0, **given), rounds=2).tensors[0]
    torch.testing.assert_close(warm, average)


def test_warmup_lets_slopes_learn_what_is_the_same_for_all_rows_of_a_node():
    """Of eight sites' sizes as the only input, own intercepts learn all there is, and the slope stays where it was."""
    size = torch.linspace(-1.5, 1.5, 8)
    sites = [(size[k].expand(20, 1), size[k].expand(20, 1) * 2) for k in range(8)]
    tasks = Tasks.from_samples(sites, loss="mse", metric="mse")

    def slope(warmup: int) -> float:
        method = partial_pooling(lr=0.05, shrink=4.0, warmup=warmup, weight_decay=0.0)
        return run(method, tasks, nn.Linear(1, 1), rounds=60).model(0).weight.item()

    assert slope(50) == pytest.approx(2, abs=0.02)
    assert abs(slope(0) - 2) > 0.2


def test_against_plain_loops():
    scene, lr, steps = Scene.small(), 0.2, 2
    plain, bias = Plain(scene), torch.arange(len(Plain(scene).start)) >= len(Plain(scene).start) - 3
    models = [plain.start] * plain.count
    for _ in range(3):
        trained = [plain.train(model, k, steps, lr) for k, model in enumerate(models)]
        mean = sum(n * model for n, model in zip(plain.sizes, trained, strict=True)) / sum(plain.sizes)
        models = [torch.where(bias, model, mean) for model in trained]
    method = partial_pooling(lr=lr, steps=steps, batch_size=100)
    torch.testing.assert_close(scene.models(method, rounds=3).part("all"), torch.stack(models))


def test_is_averaging_of_the_slopes_also_with_a_pull_without_end():
    scene, given = Scene.small(), {"epochs": 2, "lr": 0.1, "batch_size": 4, "weight_decay": 0.0}

    def models(method):
        return scene.models(method, rounds=3).tensors[0]

    shared = fedavg(part="slopes", **given)
    assert torch.equal(models(partial_pooling(**given)), models(shared))
    torch.testing.assert_close(models(partial_pooling(lam=1e12, **given)), models(shared), rtol=0, atol=1e-9)


def test_contract():
    check_contract(partial_pooling(shrink=3.0))
    assert set(check_contract(partial_pooling())) == set(check_contract(fedavg(part="slopes")))
    check_form(partial_pooling(lam=5.0, shrink=1.0, epochs=2, batch_size=4, lr=0.1))
    check_contract(partial_pooling(lam=5.0, warmup=1))


def test_settings_and_models_are_checked():
    with raises("value", "lam", "-1"):
        partial_pooling(lam=-1)
    with raises("conflict", "shrink", "leave out part="):
        partial_pooling(part="all", shrink=1.0)
    with raises("unknown", "part 'slopes'", kind=KeyError):
        Scene.small().replace(modules=[nn.Linear(4, 3, bias=False).double()]).begin(partial_pooling())
