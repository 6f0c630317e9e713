"""A round of federated averaging by FedLab 1.3.0, for comparison."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from torch import Tensor, nn

from graphcollab._base.torchvision import torchvision_datasets

INSTALL = "pip install --no-deps fedlab==1.3.0 munch pynvml pandas"


def fedlab_round(
    module: nn.Module, samples: Sequence[tuple[Tensor, Tensor]], batch_size: int, lr: float, device: str
) -> Callable[[], None]:
    """Return a function that plays a round with all nodes in one process: one epoch of SGD each, then their average.

    It is FedLab's serial client trainer and synchronous server, fed with batches that lie ready in memory, in place of
    a data loader.

    Args:
        module: The model; it holds the average after a call.
        samples: Inputs and labels of every node, in the order in which they are met.
        batch_size: Local batch size.
        lr: Step size.
        device: Where to compute.

    Raises:
        ImportError: If FedLab or something it imports is not installed.
    """
    torchvision_datasets()  # which FedLab imports, too, and which by itself may fail beside a PyTorch for CPUs only
    from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
    from fedlab.contrib.algorithm.basic_server import SyncServerHandler

    batches = [list(zip(x.split(batch_size), y.split(batch_size), strict=True)) for x, y in samples]

    class Batches:
        """What FedLab asks of a dataset."""

        def get_dataloader(self, node: int, batch_size: int) -> list[tuple[Tensor, Tensor]]:
            return batches[node]

    logger = logging.getLogger("fedlab")
    cuda = device.startswith("cuda")
    trainer = SGDSerialClientTrainer(module, len(samples), cuda, device if cuda else None, logger)
    trainer.setup_dataset(Batches())
    trainer.setup_optim(1, batch_size, lr)
    server = SyncServerHandler(module, 10**9, 1.0, cuda, device if cuda else None, logger)
    server.num_clients = len(samples)

    def play() -> None:
        trainer.local_process(server.downlink_package, server.sample_clients())
        for package in trainer.uplink_package:
            server.load(package)
        module.load_state_dict(server.model.state_dict())

    return play
