"""Detection of a multi-process launch, its main process, and how its processes meet."""

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

LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # variables that torch.distributed reads with env://


class Company(Protocol):
    """Processes connected by something other than `torch.distributed`; each of them prints and warns for itself."""

    def status(self, error: Exception | None = None) -> None:
        """Announce that this process continues, or the error in it."""

    def all_gather_object(self, value: Any) -> list[Any]:
        """Return the plain values of all processes."""

    def join(self, names: Sequence[str], owner: Tensor) -> Transport:
        """Return the transport of rows and numbers of nodes, given the names of nodes and the process of each, [K]."""


_COMPANY: ContextVar[Company | None] = ContextVar("company", default=None)


@contextlib.contextmanager
def among(company: Company) -> Iterator[None]:
    """Play runs in this context together with processes that have already been connected."""
    token = _COMPANY.set(company)
    try:
        yield
    finally:
        _COMPANY.reset(token)


def launched() -> bool:
    """Return whether a launcher such as torchrun has started several processes of this program.

    A launcher sets the process number and the meeting point in the variables RANK, WORLD_SIZE, MASTER_ADDR and
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
    """Return whether this is the main process, or the only one: the one to print, to plot and to write files."""
    if not launched() or _COMPANY.get() is not None:
        return True
    return (dist.get_rank() if dist.is_initialized() else int(os.environ["RANK"])) == 0


@contextlib.contextmanager
def only_main_process() -> Iterator[None]:
    """Let only the main process print, warn, and write files by this package's functions; also usable as a decorator.

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
    """Make an error in one process outside of a run, such as in making tasks, fail all of them with the same error.

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
    """Return the means by which the processes of a launch exchange plain values, for example to make their own tasks.

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

    Every process gets a node; a ValueError is raised if there are fewer nodes than processes.

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
    """Return the transport of a run: one process owns all nodes, unless a launcher has started several.

    Args:
        names: Names of the nodes.
        work: Returns the cost of a round for every node, [K].
        owner: The process of every node, [K]. Default: the process that has its samples, if each has those of some
            nodes only; else nodes are dealt in contiguous shares, balanced by work.
        away: Nodes whose samples this process does not have, a mask [K].

    Raises:
        ValueError: If the processes disagree on the ownership of nodes, or a process owns none.
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
        if held == [None] * len(held):  # the main process deals: if work differs, so do tasks, which is detected later
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
    library: Any = dist  # type checkers do not know these attributes
    try:
        store, rank, size = next(library.rendezvous("env://"))
        # after a restart the launcher's store still has the addresses of processes that have ended
        attempt = library.PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)
        dist.init_process_group(backend, store=attempt, rank=rank, world_size=size)
    except (RuntimeError, ValueError) as error:
        where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise LostError(
            "processes",
            f"cannot meet at {where} ({str(error).splitlines()[0]}): use another --master-port if this one is in use",
        ) from error
