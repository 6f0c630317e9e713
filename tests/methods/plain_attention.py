"""Encoders and attention of meta-L2C in plain loops over nodes, layers and filters, without the library's code."""

from __future__ import annotations

import math

import torch


def filters(change, spec):
    """The filters of every layer of a change [P]: rows of the weight, each with its bias, {layer: [C, width]}."""
    found = {}
    for name, view in zip(spec.names, spec.views(change), strict=True):
        found.setdefault(name.rpartition(".")[0] or "model", []).append(view.reshape(len(view), -1))
    return {layer: torch.cat(pieces, 1) for layer, pieces in found.items()}


def codes(mixer, change, spec):
    """The code of every layer of a change [P], before cosines: {layer: [out C]}."""
    found = {}
    for layer, rows in filters(change, spec).items():
        size = math.sqrt(sum(float(number) ** 2 for number in rows.flatten()) / rows.numel())
        numbers = {name: mixer.tensors[f"{layer}/{name}"] for name in ("weight1", "weight2")}
        found[layer] = torch.cat(
            [
                numbers["weight2"] @ (numbers["weight1"] @ row + bias(mixer, layer, 1)).relu() + bias(mixer, layer, 2)
                for row in (rows / size if mixer.normalize and size > 0 else rows)
            ]
        )
    return found


def bias(mixer, layer, number):
    return mixer.tensors.get(f"{layer}/bias{number}", 0.0)


def logit(mixer, one, other):
    """How alike two nodes' codes are."""
    if mixer.score == "cosine":
        cosines = [one[layer] @ other[layer] / (one[layer].norm() * other[layer].norm()) for layer in one]
        return (10 * mixer.tensors["temperature"]).exp() * sum(cosines) / len(cosines)
    product = sum(one[layer] @ other[layer] for layer in one)
    return product / math.sqrt(sum(len(code) for code in one.values())) if mixer.score == "scaled" else product


def row(mixer, logits, i, sparse=False):
    """The weights of a node that hears others, and itself, with these logits: {node: weight}.

    In a sparse graph the own model gets half at least, at the others' cost.
    """
    logits = dict(logits)
    if mixer.own != "softmax":
        others = [value for j, value in logits.items() if j != i]
        logits[i] = torch.stack(others).max() if others else logits[i]
    total = sum(value.exp() for value in logits.values())
    weights = {j: value.exp() / total for j, value in logits.items()}
    if mixer.own == "gate":
        p = 1 / (1 + math.exp(-float(mixer.gate)))
        weights = {j: (1 - p) * weight + (p if j == i else 0) for j, weight in weights.items()}
    if sparse and mixer.own != "softmax" and weights[i] < 0.5:
        weights = {j: 0 * weight + 0.5 if j == i else 0.5 * weight / (1 - weights[i]) for j, weight in weights.items()}
    return weights


def weights(mixer, changes, spec, heard=None, sparse=False):
    """What every node gives every node, [receiver, sender], of changes [K, P]; ``heard``: whom each hears, or all."""
    count = len(changes)
    table = [[torch.zeros((), dtype=changes.dtype) for _ in range(count)] for _ in range(count)]
    for i in range(count):
        listened = range(count) if heard is None else sorted({*heard[i], i})
        of = {j: codes(mixer, changes[j], spec) for j in listened}
        for j, weight in row(mixer, {j: logit(mixer, of[i], of[j]) for j in listened}, i, sparse).items():
            table[i][j] = weight
    return torch.stack([torch.stack(some) for some in table])
