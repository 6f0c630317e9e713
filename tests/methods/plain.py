"""Collaborative training in plain loops over nodes: what methods are compared with, without the library's code."""

from __future__ import annotations

import copy

import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters


class Plain:
    """The nodes of a scene with one architecture: their samples, and a module to load models into."""

    def __init__(self, scene):
        self.module = copy.deepcopy(scene.modules[0])
        self.count = len(scene.tasks.names)
        self.samples = {}
        for name, split in scene.tasks.splits.items():
            pool = scene.tasks.pools[split.pool]
            self.samples[name] = [(pool.inputs[split.of(k)], pool.targets[split.of(k)]) for k in range(self.count)]
        self.sizes = [len(y) for _, y in self.samples["train"]]
        self.start = parameters_to_vector(self.module.parameters()).detach()

    def loss(self, model, node, split="train"):
        """The mean loss of a model on a node's samples, and its gradient."""
        inputs, targets = self.samples[split][node]
        module = copy.deepcopy(self.module)
        vector_to_parameters(model, module.parameters())
        loss = cross_entropy(module(inputs), targets)
        gradient = torch.autograd.grad(loss, list(module.parameters()))
        return loss.item(), torch.cat([g.flatten() for g in gradient])

    def train(self, model, node, steps, lr, penalty=None):
        """Steps on all of a node's samples at once; ``penalty`` returns a further gradient."""
        model = model.clone()
        for _ in range(steps):
            step = self.loss(model, node)[1]
            model = model - lr * (step if penalty is None else step + penalty(model))
        return model


def mixed(models, weights):
    """The weighted sums of models, one per row of weights."""
    return [sum(w * model for w, model in zip(row, models, strict=True)) for row in weights]
