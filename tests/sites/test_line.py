"""A slow line carries everything, not faster than it says."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest


def echo(server: socket.socket) -> None:
    """Give back what one connection says, until it ends."""
    connection, _ = server.accept()
    with connection:
        while data := connection.recv(1 << 16):
            connection.sendall(data)


@pytest.fixture
def echo_line():
    """A line to a server that echoes, and its port."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as unused:
        thread = threading.Thread(target=echo, args=(server,), daemon=True)
        thread.start()
        port = unused.getsockname()[1]
        unused.close()
        script = Path(__file__).with_name("line.py")
        pairs = [f"{port}:{server.getsockname()[1]}"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen([sys.executable, str(script), *pairs], **pipes) as process:
            assert process.stdout.readline() == "ready\n"
            yield process, port
            process.stdin.close()
            assert process.wait(10) == 0
        thread.join(10)


def seconds_there_and_back(port: int, data: bytes) -> float:
    begin = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        threading.Thread(target=lambda: (connection.sendall(data), connection.shutdown(socket.SHUT_WR))).start()
        back = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert back == data
    return time.perf_counter() - begin


@pytest.mark.parametrize(
    ("told", "size", "least"),
    [
        pytest.param("8 0", 500_000, 0.5, id="rate"),  # 1 MB a second, both ways at the same time
        pytest.param("1000 100", 1, 0.2, id="delay"),
    ],
)
def test_a_line_carries_everything_no_faster_than_it_says(echo_line, told, size, least):
    process, port = echo_line
    process.stdin.write(told + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "set\n"
    assert seconds_there_and_back(port, bytes(range(250)) * (size // 250) or b"x") > 0.98 * least
