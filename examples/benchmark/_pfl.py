"""A round of federated averaging by pfl 0.6.0 (Apple's pfl-research), for comparison."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

INSTALL = (
    "pip install --no-deps pfl==0.6.0 'dp-accounting>=0.4,<0.6' 'multiprocess>=0.70.15,<0.71' "
    "'prv-accountant>=0.2,<0.3' dill absl-py attrs dm-tree mpmath scipy"
)


def pfl_round(
    module: nn.Module, samples: Sequence[tuple[Tensor, Tensor]], batch_size: int, lr: float, device: str
) -> Callable[[], None]:
    """Return a function that plays a central iteration with all nodes: one epoch of SGD each, then their average.

    Args:
        module: The model; it holds the average after a call.
        samples: Inputs and labels of every node, in the order in which they are met.
        batch_size: Local batch size.
        lr: Step size.
        device: Where to compute.

    Raises:
        ImportError: If pfl or something it imports is not installed.
    """
    os.environ["PFL_PYTORCH_DEVICE"] = device
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import MinimizeReuseUserSampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.model.pytorch import PyTorchModel

    def loss(inputs: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(module(inputs), labels)

    module.loss, module.metrics = loss, lambda inputs, labels: {}  # what pfl asks a module for
    model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
    users = [PyTorchTensorDataset((x, y), user_id=str(k)) for k, (x, y) in enumerate(samples)]
    data = FederatedDataset(users.__getitem__, MinimizeReuseUserSampler(range(len(users))))
    backend, algorithm = SimulatedBackend(data, data), FederatedAveraging()
    algorithm._current_central_iteration = 1  # iteration 0 would evaluate all users as well
    local = NNTrainHyperParams(
        local_batch_size=batch_size, local_num_epochs=1, local_learning_rate=lr, local_max_grad_norm=None
    )

    def play() -> None:
        settings: dict[str, Any] = {
            "central_num_iterations": algorithm._current_central_iteration + 1,
            "evaluation_frequency": 10**9,
            "train_cohort_size": len(users),
            "val_cohort_size": 0,
        }
        algorithm.run(NNAlgorithmParams(**settings), backend, model, local, send_metrics_to_platform=False)

    return play
