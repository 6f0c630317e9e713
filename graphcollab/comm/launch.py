"""Whether a launcher has started several processes, who of them speaks, and how they meet."""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from graphcollab._base.checks import own_filter
from graphcollab._base.errors import ConflictError, LostError, MismatchError, MissingError, TooManyError
from graphcollab._base.files import unwritten
from graphcollab.comm import transport
from graphcollab.comm.meeting import Meeting
from graphcollab.comm.processes import Processes
from graphcollab.comm.transport import Transport

LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # what torch.distributed reads with env://


class Company(Protocol):
    """Processes that something else than `torch.distributed` has brought together; each speaks for itself."""

    def status(self, error: Exception | None = None) -> None:
        """Say that this process goes on, or what has failed in it."""

    def all_gather_object(self, value: Any) -> list[Any]:
        """Return the plain values that all have to tell."""

    def join(self, names: Sequence[str], owner: Tensor) -> Transport:
        """Return how rows and numbers of nodes travel, given the names of nodes and the process of each, [K]."""


_COMPANY: ContextVar[Company | None] = ContextVar("company", default=None)


@contextlib.contextmanager
def among(company: Company) -> Iterator[None]:
    """Let runs in this context be played together with others that have been brought together already."""
    token = _COMPANY.set(company)
    try:
        yield
    finally:
        _COMPANY.reset(token)


def launched() -> bool:
    """Tell whether a launcher such as torchrun has started several processes of this program.

    It has if it has told them their number and where to meet, by the variables RANK, WORLD_SIZE, MASTER_ADDR and
    MASTER_PORT.

    Example:
        >>> launched()
        False
    """
    if _COMPANY.get() is not None:
        return True
    if not dist.is_available():
        return False
    if dist.is_initialized():
        return dist.get_world_size() > 1
    return all(name in os.environ for name in LAUNCHED) and int(os.environ["WORLD_SIZE"]) > 1


def is_main_process() -> bool:
    """Tell whether this is the first process, or the only one: the one to print, to draw and to write files."""
    if not launched() or _COMPANY.get() is not None:
        return True
    return (dist.get_rank() if dist.is_initialized() else int(os.environ["RANK"])) == 0


@contextlib.contextmanager
def only_main_process() -> Iterator[None]:
    """Let the first process alone print, warn, and write files by this package's functions; as a decorator, too.

    Example:
        >>> with only_main_process():
        ...     print("said once")
        said once
    """
    if is_main_process():
        yield
        return
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), own_filter("ignore"), unwritten():
        yield


@contextlib.contextmanager
def raise_on_all() -> Iterator[None]:
    """Let what fails in one process outside of a run, such as making tasks, fail in all of them, with the same error.

    Example:
        >>> with raise_on_all():
        ...     print("alone there is nobody to tell")
        alone there is nobody to tell
    """
    if not launched():
        yield
        return
    with transport.raise_on_all(meeting()):
        yield


def meeting() -> Company | Meeting | Transport:
    """Return how the processes of a launch tell each other plain values, such as to make tasks of their own samples.

    Example:
        >>> meeting().all_gather_object("alone there is only one")
        ['alone there is only one']
    """
    if (company := _COMPANY.get()) is not None:
        return company
    if not launched():
        return Transport()
    _join()
    return Meeting()


def deal(work: Tensor, processes: int) -> Tensor:
    """Return the process of every node, [K]: contiguous shares, balanced by the nodes' ``work`` [K].

    Every process gets a node; with fewer nodes than processes that is a ValueError.

    Example:
        >>> deal(torch.tensor([1.0, 1.0, 1.0, 1.0, 4.0]), 2).tolist()
        [0, 0, 0, 0, 1]
    """
    count = len(work)
    if count < processes:
        raise TooManyError(
            "processes",
            f"{processes} processes were started, and there are {count} nodes: each needs one, so start fewer",
        )
    middle = work.double().cumsum(0) - work.double() / 2
    owner = (middle * processes / work.double().sum().clamp(min=1e-300)).long().clamp(0, processes - 1)
    place = torch.arange(count)
    # no process begins later than leaves a node for each after it, nor earlier than each before it has one
    first = torch.searchsorted(owner, torch.arange(processes))
    for p in range(processes):
        low = 0 if p == 0 else int(first[p - 1]) + 1
        first[p] = 0 if p == 0 else min(max(int(first[p]), low), count - processes + p)
    return torch.searchsorted(first, place, right=True) - 1


def meet(
    names: Sequence[str],
    work: Callable[[], Tensor],
    owner: Sequence[int] | Tensor | None = None,
    away: Tensor | None = None,
) -> Transport:
    """Return how the processes of a run meet: one owns all nodes, unless a launcher has started several.

    Args:
        names: Names of the nodes.
        work: Returns what a round costs every node, [K].
        owner: The process of every node, [K]. Default: that which has its samples, where each has those of some nodes
            only; else nodes are dealt in contiguous shares, balanced by work.
        away: Nodes whose samples this process has not got, a mask [K].

    Raises:
        ValueError: If the processes disagree about who owns which node, or one owns none.
    """
    if not launched():
        if away is not None and bool(away.any()):
            node = names[int(away.int().argmax())]
            raise MissingError(
                f"node {node!r}",
                f"samples of {node!r} are not here, and this is the only process: start it by torchrun",
            )
        if owner is not None and bool(torch.as_tensor(owner).any()):
            raise ConflictError(
                "placement", "placement= names several processes, and this is the only one: start it by torchrun"
            )
        return Transport()
    if owner is None:
        whole = away is None or not bool(away.any())
        held = meeting().all_gather_object(None if whole or away is None else (~away).nonzero().flatten().tolist())
        if held == [None] * len(held):  # the first deals: where work differs, so do tasks, which is found out later
            owner = meeting().all_gather_object(deal(work(), len(held)).tolist())[0]
        else:
            owner = _by_samples(names, held)
    given = torch.as_tensor(owner).long()
    if (company := _COMPANY.get()) is not None:
        return company.join(names, given)
    _join()
    return Processes(names, given)


def _by_samples(names: Sequence[str], held: Sequence[list[int] | None]) -> list[int]:
    """Return the process of every node, [K], given the nodes whose samples each has; None: those of all."""
    claims = [[p for p, nodes in enumerate(held) if nodes is None or k in nodes] for k in range(len(names))]
    for name, claim in zip(names, claims, strict=True):
        if len(claim) != 1:
            raise MismatchError(
                f"node {name!r}",
                f"samples of {name!r} are in the processes {claim}: say by placement= whose each node is",
            )
    return [process for (process,) in claims]


def _join() -> None:
    if dist.is_initialized():
        return
    atexit.register(lambda: dist.destroy_process_group() if dist.is_initialized() else None)  # waiting threads abort
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    library: Any = dist  # which does not say to type checkers that it has these
    try:
        store, rank, size = next(library.rendezvous("env://"))
        # after a restart the launcher's store still has the addresses of processes that have ended
        attempt = library.PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)
        dist.init_process_group(backend, store=attempt, rank=rank, world_size=size)
    except (RuntimeError, ValueError) as error:
        where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise LostError(
            "processes",
            f"the processes cannot meet at {where} ({str(error).splitlines()[0]}): start them by torchrun, with "
            "another --master-port if this one is in use",
        ) from error
