"""Work that is shared: every item once, errors seen, results the same for any number of threads."""

from __future__ import annotations

import signal
import threading
import time

import pytest
import torch

from graphcollab._base.threads import same_threads, share
from graphcollab.nn.functional import mix
from graphcollab.nn.functional.kernels import BLOCK_BYTES, _sampled, csr_product
from graphcollab.nn.functional.structure import Structure


@pytest.fixture(params=[1, 2, 3])
def threads(request, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    with same_threads(request.param):
        yield request.param


def test_every_item_is_done_once_by_threads_that_compute_alone(threads):
    done, inside = [], []

    def work(item):
        time.sleep(0.01)
        done.append(item)
        inside.append((torch.get_num_threads(), torch.is_grad_enabled()))

    share(work, range(20))
    assert sorted(done) == list(range(20))
    assert set(inside) == {(1, False)}
    assert torch.get_num_threads() == threads


def test_errors_are_raised(threads):
    def work(item):
        if item == 3:
            raise RuntimeError("three")

    with pytest.raises(RuntimeError, match="three"):
        share(work, range(20))


@pytest.fixture
def interrupted():
    """Shells let programs in the background ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupted")
@pytest.mark.parametrize("how", ["error", "interrupt", "interrupt twice"])
def test_nobody_is_at_work_any_more_when_an_error_is_seen(threads, how):
    """What items write to may be somebody else's by then."""
    begun, ended = [], []

    def work(item):
        begun.append(item)
        if item == 4 and how == "error":
            raise KeyboardInterrupt
        if item == 4 or (item == 5 and how == "interrupt twice"):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.02)
        ended.append(item)

    with pytest.raises(KeyboardInterrupt):
        share(work, range(40))
    seen = len(begun), len(ended)
    assert seen[0] - seen[1] <= 1 + (threads == 1)
    assert seen[0] < 20
    time.sleep(0.1)
    assert (len(begun), len(ended)) == seen


def test_threads_that_begin_later_find_the_callers_number(threads):
    found = []
    share(lambda item: None, range(9))
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    now = torch.get_num_threads()
    torch.set_num_threads(threads)
    share(lambda item: None, range(9))
    thread.start(), thread.join()
    torch.set_num_threads(now)
    assert found == [threads]


def sparse(dtype=torch.float32):
    draw = torch.Generator().manual_seed(0)
    edges = torch.randint(40, (2, 120), generator=draw).unique(dim=1)
    x = torch.randn(40, 3 * BLOCK_BYTES // (40 * 4), generator=draw).to(dtype)
    return Structure.from_edges(edges, (40, 40)), torch.rand(edges.shape[1], generator=draw).to(dtype), x


def test_products_are_the_same_to_the_last_bit_for_any_number_of_threads(threads):
    structure, weight, x = sparse()
    with same_threads(1):
        product, dots = csr_product(structure, weight, x), _sampled(structure, x, x)
    assert torch.equal(csr_product(structure, weight, x), product)
    assert torch.equal(_sampled(structure, x, x), dots)


def test_products_are_right(threads):
    structure, weight, x = sparse(torch.float64)
    dense = torch.zeros(40, 40, dtype=torch.float64)
    dense[structure.receiver, structure.sender] = weight
    torch.testing.assert_close(csr_product(structure, weight, x), dense @ x)
    gram = x @ x.T
    torch.testing.assert_close(_sampled(structure, x, x), gram[structure.receiver, structure.sender])


def test_gradients_flow(threads):
    structure, weight, x = sparse(torch.float64)
    sender = structure.unsort(structure.sender)
    x, weight = x.requires_grad_(), weight.requires_grad_()
    y = mix(x, weight, structure, kernel="csr")
    to_x, to_weight = torch.autograd.grad(y.sum(), (x, weight))
    given = torch.zeros(40, dtype=torch.float64).index_add_(0, sender, weight.detach())
    torch.testing.assert_close(to_x, given[:, None].expand_as(to_x))
    torch.testing.assert_close(to_weight, x.detach().sum(1)[sender])
