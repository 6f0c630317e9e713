"""Families of modules: one small member each, what it takes, and what becomes of it. See docs/models.md."""

from __future__ import annotations

import random
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune


@dataclass(frozen=True)
class Family:
    """One kind of module.

    Args:
        kind: Its row in docs/models.md.
        make: Makes a module with 3 outputs.
        takes: "flat" [n, 4], "image" [n, 1, 6, 6], "sequence" [n, 5, 3] or "tokens" [n, 4] from 0 to 5.
        backend: What the plan must choose on a CPU; None: the module is refused.
        says: A part of the plan's reason.
        padding: What the plan must say of padding; None: whatever it says.
        refused: Code and subject of the refusal, and facts that it names.
    """

    kind: str
    make: Callable[[], nn.Module]
    takes: str = "flat"
    backend: str | None = "vmap"
    says: str = ""
    padding: str | None = None
    refused: tuple[str, ...] = ("contract",)


class Does(nn.Module):
    """Layers by name, and a function of (layers, inputs) as the forward pass."""

    def __init__(self, forward, **layers):
        super().__init__()
        for name, layer in layers.items():
            setattr(self, name, layer)
        self.does = [forward]  # a list: it is no layer

    def forward(self, inputs):
        return self.does[0](self, inputs)


def mlp(*middle, into=4, width=6):
    return lambda: nn.Sequential(nn.Linear(into, width), *(make() for make in middle), nn.Linear(width, 3))


def image(*middle, out):
    return lambda: nn.Sequential(nn.Conv2d(1, 4, 3), *(make() for make in middle), nn.Flatten(), nn.Linear(out, 3))


def does(forward, **makers):
    return lambda: Does(forward, **{name: make() for name, make in makers.items()})


def layer(kind, *args, **kwargs):
    return lambda: kind(*args, **kwargs)


def lin(*sizes, **kwargs):
    return layer(nn.Linear, *sizes, **kwargs)


# Modules that need more than a lambda.


class Tied(nn.Module):
    """One matrix in both directions."""

    def __init__(self):
        super().__init__()
        self.weight, self.head = nn.Parameter(torch.eye(4, 5) * 0.5), nn.Linear(4, 3)

    def forward(self, inputs):
        return self.head(torch.tanh(inputs @ self.weight) @ self.weight.T)


def tied_layers():
    one = nn.Linear(4, 4)
    return nn.Sequential(one, nn.Tanh(), one, nn.Linear(4, 3))


def tied_weight():
    module = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 3))
    module[2].weight = module[0].weight
    return module


def tied_embedding():
    module = Does(lambda m, x: m.out(m.table(x).mean(1))[:, :3], table=nn.Embedding(6, 4), out=nn.Linear(4, 6))
    module.out.weight = module.table.weight
    return module


def frozen():
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 5), nn.Linear(5, 3))
    module[0].requires_grad_(False)
    module[2].bias.requires_grad_(False)
    return module


def frozen_norm():
    """Frozen batch normalization, as in fine-tuning."""

    class Frozen(nn.Sequential):
        def train(self, mode=True):
            super().train(mode)
            self[1].eval()
            return self

    return Frozen(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.head, self.idle = nn.Linear(4, 3), nn.Linear(2, 2)

    def forward(self, inputs):
        return self.head(inputs)


class BufferIn(nn.Module):
    """Keeps a running average: changed in place, or replaced."""

    def __init__(self, in_place):
        super().__init__()
        self.head, self.in_place = nn.Linear(4, 3), in_place
        self.register_buffer("center", torch.zeros(4))

    def forward(self, inputs):
        if self.training:
            now = inputs.detach().mean(0)
            if self.in_place:
                self.center.mul_(0.9).add_(0.1 * now)
            else:
                self.center = 0.9 * self.center + 0.1 * now
        return self.head(inputs - self.center)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, inputs):
        return self.one(inputs) if float(inputs.sum()) > -1e9 else self.other(inputs)


class Clamped(nn.Module):
    """Changes its own weights in the forward pass."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, inputs):
        with torch.no_grad():
            self.head.weight.clamp_(-0.2, 0.2)
        return self.head(inputs)


class Keeps(nn.Module):
    """Keeps an activation to be looked at."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, inputs):
        self.seen = torch.tanh(self.body(inputs))
        return self.head(self.seen)


class Remembers(nn.Module):
    """Adds what it saw last."""

    def __init__(self):
        super().__init__()
        self.head, self.last = nn.Linear(4, 3), 0.0

    def forward(self, inputs):
        out = self.head(inputs) + self.last
        self.last = float(out.detach().mean())
        return out


class Noise(nn.Module):
    """Noise from elsewhere than PyTorch, or in evaluation too."""

    def __init__(self, draw):
        super().__init__()
        self.head, self.draw = nn.Linear(4, 3), draw

    def forward(self, inputs):
        return self.head(inputs) * (1 + self.draw(self))


def by_numpy(module):
    return float(np.random.random()) if module.training else 0  # noqa: NPY002


def hooked(register):
    def make():
        module = mlp(nn.ReLU)()
        register(module)
        return module

    return make


def halved(module):
    module[0].weight.register_hook(lambda grad: 0.5 * grad / (1 + grad.norm()))


def backward_hook(module):
    module[2].register_full_backward_hook(lambda m, gin, gout: tuple(g if g is None else 0.5 * g for g in gin))


def clipped(m, inputs):
    """A hook on an activation's gradient that sees all of it."""
    hidden = m.body(inputs)
    if hidden.requires_grad:
        hidden.register_hook(lambda grad: grad / (1e-3 + grad.norm()))
    return m.head(torch.tanh(hidden))


def after_accumulation(module):
    module[0].weight.register_post_accumulate_grad_hook(lambda parameter: None)


def patched(replace):
    def make():
        module = mlp(nn.ReLU)()
        replace(module)
        return module

    return make


def patch_function(module):
    module[1].forward = lambda inputs: torch.tanh(inputs) * 2


def patch_method(module):
    module[2].forward = types.MethodType(lambda self, x: F.linear(x, 2 * self.weight, self.bias), module[2])


def patch_closure(module):
    old = module[2].forward
    module[2].forward = lambda inputs: 2 * old(inputs)


def old_norm(apply, *args):
    def make():
        module = mlp(nn.ReLU)()
        apply(module[0], *args)
        return module

    return make


def lstm(kind, **settings):
    wide = 2 if settings.get("bidirectional") else 1
    return does(
        lambda m, x: m.head(m.body(x)[0][:, -1]),
        body=lambda: kind(3, 4, batch_first=True, **settings),
        head=lin(4 * wide, 3),
    )


def cell(m, x):
    state = x.new_zeros(len(x), 4)
    for step in x.unbind(1):
        state = m.body(step, state)
    return m.head(state)


def tokens(**settings):
    return does(
        lambda m, x: m.head(m.table(x).flatten(1)), table=lambda: nn.Embedding(6, 3, **settings), head=lin(12, 3)
    )


def bag(**settings):
    return does(lambda m, x: m.head(m.table(x)), table=lambda: nn.EmbeddingBag(6, 4, **settings), head=lin(4, 3))


def mixed():
    module = mlp(nn.ReLU)()
    module[2].double()
    return module


def scripted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated
        return torch.jit.script(mlp(nn.ReLU)())


def part_traced():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.Sequential(torch.jit.trace(nn.Linear(4, 4), torch.zeros(2, 4)), nn.Linear(4, 3))


class OneNumber(nn.Module):
    """Returns one number per sample, without an axis for it."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 5), nn.Linear(5, 1)

    def forward(self, inputs):
        return self.head(torch.tanh(self.body(inputs))).squeeze(-1)


def complex_module():
    module = nn.Linear(4, 3)
    module.turn = nn.Parameter(torch.ones(2, dtype=torch.complex64))
    return module


def attention(m, x):
    return m.head(m.body(x, x, x, need_weights=False)[0].mean(1))


ACTIVATIONS = {
    kind.__name__: kind
    for kind in (
        nn.CELU, nn.ELU, nn.GELU, nn.Hardshrink, nn.Hardsigmoid, nn.Hardswish, nn.Hardtanh, nn.Identity, nn.LeakyReLU,
        nn.LogSigmoid, nn.Mish, nn.PReLU, nn.ReLU, nn.ReLU6, nn.SELU, nn.SiLU, nn.Sigmoid, nn.Softplus, nn.Softshrink,
        nn.Softsign, nn.Tanh, nn.Tanhshrink,
    )
}  # fmt: skip
POOLS = {
    "max": (lambda: nn.MaxPool2d(2), 16),
    "average": (lambda: nn.AvgPool2d(2), 16),
    "adaptive": (lambda: nn.AdaptiveAvgPool2d(1), 4),
    "adaptive maximum": (lambda: nn.AdaptiveMaxPool2d(2), 16),
    "lp": (lambda: nn.LPPool2d(2, 2), 16),
}
LINEAR, NORM, CONV, EMBED = "linear layers", "normalization", "convolutions and pooling", "embeddings"
ACT, RNN, ATT, PARAM = "activations", "recurrent layers", "attention", "parametrizations"
DROP, FORM, HOOK, STATE = "dropout and noise", "branching, tied, frozen and unused parts", "hooks", "state of their own"
ACROSS = "looking across the batch"

FAMILIES: dict[str, Family] = {
    "linear": Family(LINEAR, lin(4, 3), padding="always"),
    "linear without bias": Family(LINEAR, lin(4, 3, bias=False)),
    "mlp": Family(LINEAR, mlp(nn.ReLU), padding="always"),
    "deep mlp": Family(LINEAR, mlp(*[nn.Tanh, lin(6, 6)] * 6)),
    "bilinear": Family(
        LINEAR, does(lambda m, x: m.body(x, x), body=layer(nn.Bilinear, 4, 4, 3)), backend="loop", says="row by row"
    ),
    **{f"{name}": Family(ACT, mlp(kind)) for name, kind in ACTIVATIONS.items()},
    "GLU": Family(ACT, does(lambda m, x: m.head(F.glu(m.body(x))), body=lin(4, 6), head=lin(3, 3))),
    "Softmax": Family(ACT, mlp(lambda: nn.Softmax(1))),
    "LogSoftmax": Family(ACT, mlp(lambda: nn.LogSoftmax(-1))),
    "ReLU in place": Family(ACT, mlp(lambda: nn.ReLU(inplace=True))),
    "first in place": Family(ACT, lambda: nn.Sequential(nn.LeakyReLU(inplace=True), nn.Linear(4, 3))),
    "SiLU in place": Family(ACT, mlp(lambda: nn.LayerNorm(6), lambda: nn.SiLU(inplace=True))),
    "batch norm": Family(NORM, mlp(lambda: nn.BatchNorm1d(6)), padding="evaluation"),
    "batch norm, not affine": Family(NORM, mlp(lambda: nn.BatchNorm1d(6, affine=False)), padding="evaluation"),
    "batch norm, no tracking": Family(NORM, mlp(lambda: nn.BatchNorm1d(6, track_running_stats=False)), padding="never"),
    "batch norm, cumulative": Family(NORM, mlp(lambda: nn.BatchNorm1d(6, momentum=None)), backend="loop", says="item"),
    "batch norm, 2d": Family(NORM, image(lambda: nn.BatchNorm2d(4), out=64), "image", "loop", padding="evaluation"),
    "frozen batch norm": Family(NORM, frozen_norm),
    "layer norm": Family(NORM, mlp(lambda: nn.LayerNorm(6)), padding="always"),
    "group norm": Family(NORM, image(lambda: nn.GroupNorm(2, 4), out=64), "image", "loop"),
    "instance norm": Family(NORM, image(lambda: nn.InstanceNorm2d(4), out=64), "image", "loop", padding="always"),
    "instance norm, tracking": Family(
        NORM, image(lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True), out=64), "image", "loop"
    ),
    "rms norm": Family(NORM, mlp(lambda: nn.RMSNorm(6))),
    "local response norm": Family(NORM, image(lambda: nn.LocalResponseNorm(2), out=64), "image", "loop"),
    "conv 1d": Family(
        CONV, lambda: nn.Sequential(nn.Conv1d(5, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)), "sequence", "loop"
    ),
    "conv 2d": Family(CONV, image(nn.ReLU, out=64), "image", "loop", "Conv2d on a CPU", padding="always"),
    "conv, strided": Family(CONV, image(lambda: nn.Conv2d(4, 4, 3, 2, 1), out=16), "image", "loop"),
    "conv, grouped": Family(CONV, image(lambda: nn.Conv2d(4, 4, 3, groups=2), out=16), "image", "loop"),
    "conv, depthwise": Family(CONV, image(lambda: nn.Conv2d(4, 8, 3, groups=4), out=32), "image", "loop"),
    "conv, dilated": Family(CONV, image(lambda: nn.Conv2d(4, 4, 2, dilation=2), out=16), "image", "loop"),
    "conv, circular": Family(
        CONV, image(lambda: nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"), out=64), "image", "loop"
    ),
    "conv, transposed": Family(CONV, image(lambda: nn.ConvTranspose2d(4, 2, 2), out=50), "image", "loop"),
    "upsampling": Family(CONV, image(lambda: nn.Upsample(scale_factor=2), out=256), "image", "loop"),
    "pixel shuffle": Family(CONV, image(lambda: nn.PixelShuffle(2), out=64), "image", "loop"),
    "padding layer": Family(CONV, image(lambda: nn.ReflectionPad2d(1), out=144), "image", "loop"),
    **{f"{name} pool": Family(CONV, image(make, out=out), "image", "loop") for name, (make, out) in POOLS.items()},
    "pool without convolution": Family(
        CONV, lambda: nn.Sequential(nn.AvgPool2d(2), nn.Flatten(), nn.Linear(9, 3)), "image"
    ),
    "dropout": Family(DROP, mlp(lambda: nn.Dropout(0.4)), backend="loop", says="keyed per node", padding="evaluation"),
    "dropout 2d": Family(DROP, image(lambda: nn.Dropout2d(0.4), out=64), "image", "loop"),
    "alpha dropout": Family(DROP, mlp(lambda: nn.AlphaDropout(0.4)), backend="loop"),
    "feature alpha dropout": Family(DROP, image(lambda: nn.FeatureAlphaDropout(0.4), out=64), "image", "loop"),
    "RReLU": Family(DROP, mlp(nn.RReLU), backend="loop"),
    "dropout by function": Family(
        DROP, does(lambda m, x: m.head(F.dropout(x, 0.3, m.training)), head=lin(4, 3)), backend="loop"
    ),
    "noise by torch": Family(
        DROP, lambda: Noise(lambda m: torch.randn(()).double() if m.training else 0), backend="loop"
    ),
    "noise by NumPy": Family(DROP, lambda: Noise(by_numpy), backend=None, refused=("contract", "model", "NumPy")),
    "noise by Python": Family(
        DROP, lambda: Noise(lambda m: random.random() if m.training else 0), backend=None, refused=("contract", "model")
    ),
    "noise in evaluation": Family(
        DROP,
        lambda: Noise(lambda m: torch.randn(()).double()),
        backend=None,
        refused=("contract", "model", "self.training"),
    ),
    "embedding": Family(EMBED, tokens(), "tokens", padding="always"),
    "embedding, padding_idx": Family(EMBED, tokens(padding_idx=0), "tokens", "loop", "padding_idx is trained"),
    "embedding, scaled by frequency": Family(EMBED, tokens(scale_grad_by_freq=True), "tokens", "loop", "counts"),
    "embedding, max_norm": Family(EMBED, tokens(max_norm=0.5), "tokens", "loop", "max_norm"),
    "embedding, sparse": Family(EMBED, tokens(sparse=True), "tokens"),
    "embedding bag": Family(EMBED, bag(), "tokens", "loop"),
    "embedding bag, sum": Family(EMBED, bag(mode="sum", padding_idx=0), "tokens", "loop", "padding_idx"),
    "embedding by function": Family(
        EMBED,
        does(
            lambda m, x: m.head(F.embedding(x, m.table.weight, 0).flatten(1)),
            table=layer(nn.Embedding, 6, 3),
            head=lin(12, 3),
        ),
        "tokens",
        "loop",
    ),
    "LSTM": Family(RNN, lstm(nn.LSTM), "sequence", "loop", "LSTM has no stacked form"),
    "GRU, two layers": Family(RNN, lstm(nn.GRU, num_layers=2), "sequence", "loop"),
    "RNN, bidirectional": Family(RNN, lstm(nn.RNN, bidirectional=True), "sequence", "loop"),
    "LSTM over the batch": Family(
        ACROSS,
        does(lambda m, x: m.head(m.body(x)[0]), body=layer(nn.LSTM, 4, 4), head=lin(4, 3)),
        backend="loop",
        padding="never",
    ),
    "RNN cell": Family(RNN, does(cell, body=layer(nn.RNNCell, 3, 4), head=lin(4, 3)), "sequence", "loop"),
    "multi-head attention": Family(
        ATT,
        does(attention, body=lambda: nn.MultiheadAttention(3, 1, batch_first=True), head=lin(3, 3)),
        "sequence",
        "loop",
    ),
    "transformer layer": Family(
        ATT,
        does(
            lambda m, x: m.head(m.body(x).mean(1)),
            head=lin(3, 3),
            body=lambda: nn.TransformerEncoderLayer(3, 1, 6, dropout=0.0, batch_first=True),
        ),
        "sequence",
        "loop",
    ),
    "transformer layer, dropout": Family(
        ATT,
        does(
            lambda m, x: m.head(m.body(x).mean(1)),
            head=lin(3, 3),
            body=lambda: nn.TransformerEncoderLayer(3, 1, 6, dropout=0.2, batch_first=True),
        ),
        "sequence",
        "loop",
    ),
    "attention by function": Family(
        ATT,
        does(
            lambda m, x: m.head(F.scaled_dot_product_attention(m.q(x), m.k(x), x).mean(1)),
            q=lin(3, 3),
            k=lin(3, 3),
            head=lin(3, 3),
        ),
        "sequence",
    ),
    "weight norm": Family(PARAM, hooked(lambda m: parametrizations.weight_norm(m[0])), backend="loop"),
    "weight norm, old": Family(PARAM, old_norm(nn.utils.weight_norm), backend="loop"),
    "spectral norm": Family(PARAM, hooked(lambda m: parametrizations.spectral_norm(m[0])), backend="loop"),
    "spectral norm, old": Family(PARAM, old_norm(nn.utils.spectral_norm), backend="loop"),
    "orthogonal": Family(PARAM, hooked(lambda m: parametrizations.orthogonal(m[2]))),
    "pruned": Family(PARAM, old_norm(lambda m: prune.l1_unstructured(m, "weight", 0.3)), backend="loop"),
    "tied by use": Family(FORM, Tied),
    "tied layers": Family(FORM, tied_layers),
    "tied weights": Family(FORM, tied_weight),
    "tied embedding": Family(FORM, tied_embedding, "tokens"),
    "frozen parts": Family(FORM, frozen),
    "unused parts": Family(FORM, Unused),
    "residual": Family(FORM, does(lambda m, x: m.head(x + torch.relu(m.body(x))), body=lin(4, 4), head=lin(4, 3))),
    "lists of layers": Family(
        FORM,
        does(
            lambda m, x: sum(layer(x) for layer in m.all), all=lambda: nn.ModuleList([nn.Linear(4, 3) for _ in "abc"])
        ),
    ),
    "branching on values": Family(FORM, Branches, backend="loop", says="item"),
    "outputs that are views": Family(FORM, does(lambda m, x: m.head(x)[:, :3], head=lin(4, 5))),
    "einsum": Family(FORM, does(lambda m, x: torch.einsum("bi,oi->bo", x, m.head.weight), head=lin(4, 3))),
    "writes its weights": Family(FORM, Clamped, backend="loop"),
    "unregistered layers": Family(
        FORM,
        does(lambda m, x: m.head(m.hidden[0](x)), hidden=lambda: [nn.Linear(4, 4).double()], head=lin(4, 3)),
        backend=None,
        refused=("contract", "model"),
    ),
    "running average in place": Family(STATE, lambda: BufferIn(True), padding="evaluation"),
    "running average replaced": Family(STATE, lambda: BufferIn(False), backend="loop", says="its buffers after a step"),
    "keeps an activation": Family(STATE, Keeps, backend="loop", says="'seen'"),
    "remembers the last batch": Family(STATE, Remembers, backend=None, refused=("contract", "attribute 'last'")),
    "centers on the batch": Family(ACROSS, does(lambda m, x: m.head(x - x.mean(0)), head=lin(4, 3)), padding="never"),
    "batch norm by function": Family(
        ACROSS,
        does(lambda m, x: m.head(F.batch_norm(m.body(x), None, None, training=True)), body=lin(4, 5), head=lin(5, 3)),
        padding="never",
    ),
    "centers in training": Family(
        ACROSS, does(lambda m, x: m.head(x - x.mean(0) if m.training else x), head=lin(4, 3)), padding="evaluation"
    ),
    "attention over samples": Family(
        ACROSS, does(lambda m, x: m.head(torch.softmax(x @ x.T, 1) @ x), head=lin(4, 3)), padding="never"
    ),
    "hook on outputs": Family(HOOK, hooked(lambda m: m[0].register_forward_hook(lambda m, i, out: 2 * out))),
    "hook on inputs": Family(HOOK, hooked(lambda m: m[2].register_forward_pre_hook(lambda m, i: (i[0] * 2,)))),
    "hook on an activation's gradient": Family(HOOK, does(clipped, body=lin(4, 5), head=lin(5, 3)), backend="loop"),
    "hook on a layer's gradient": Family(HOOK, hooked(backward_hook), backend="loop", says="one node at a time"),
    "hook on a parameter's gradient": Family(HOOK, hooked(halved), backend="loop", says="'0.weight'"),
    "hook after accumulation": Family(
        HOOK, hooked(after_accumulation), backend=None, refused=("unsupported", "parameter '0.weight'")
    ),
    "patched by a function": Family(HOOK, patched(patch_function)),
    "patched by a method": Family(HOOK, patched(patch_method)),
    "patched around the old one": Family(
        HOOK, patched(patch_closure), backend=None, refused=("contract", "model", "subclass")
    ),
    "scripted": Family(
        "number types and shapes", scripted, backend=None, refused=("unsupported", "model", "torch.jit")
    ),
    "a part traced": Family(
        "number types and shapes", part_traced, backend=None, refused=("unsupported", "model", "'0'")
    ),
    "lazy": Family(
        "number types and shapes", lambda: nn.LazyLinear(3), backend=None, refused=("unsupported", "parameter 'weight'")
    ),
    "mixed number types": Family("number types and shapes", mixed, backend=None, refused=("mismatch", "model")),
    "complex parameters": Family(
        "number types and shapes", complex_module, backend=None, refused=("unsupported", "parameter 'turn'")
    ),
}
