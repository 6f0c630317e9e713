"""A slow line: forwards TCP connections with a rate and a delay in each direction.

``python line.py LISTEN:TARGET [LISTEN:TARGET ...]`` forwards what comes to each port LISTEN of this machine to its
port TARGET. Each pair is a line of its own, whose connections share its rate. It says "ready" when it listens. Every
line of its standard input, two numbers, sets the rate in Mbit/s and the delay in ms of one way, of all lines; until
then they are as fast as the machine.
"""

from __future__ import annotations

import asyncio
import math
import sys
import time

CHUNK = 16384  # bytes read at once
SLACK = 0.005  # seconds that a late wake-up may make good


class Way:
    """One direction of a line."""

    rate = math.inf  # bytes per second, of all lines
    delay = 0.0  # seconds, of all lines

    def __init__(self) -> None:
        self.free = 0.0

    def send(self, size: int) -> float:
        """The moment when all of `size` more bytes have been sent."""
        self.free = max(self.free, time.monotonic() - SLACK) + size / Way.rate
        return self.free


async def until(moment: float, exact: float) -> None:
    """Wait, unless it is less than `exact` seconds."""
    wait = moment - time.monotonic()
    if wait > exact:
        await asyncio.sleep(wait)


async def arrive(queue: asyncio.Queue, writer: asyncio.StreamWriter) -> None:
    """Hand over what has been sent once the delay is over."""
    while True:
        data, moment = await queue.get()
        await until(moment, 0.0005)
        if not data:
            writer.write_eof()
            return
        writer.write(data)
        await writer.drain()


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
    """Carry all that is read until its end."""
    queue: asyncio.Queue = asyncio.Queue()
    arriving = asyncio.ensure_future(arrive(queue, writer))
    data = b"?"
    try:
        while data:
            data = await reader.read(CHUNK)
            sent = max(way.send(len(data)), time.monotonic())
            await until(sent, 0.002)
            queue.put_nowait((data, sent + Way.delay))
        await arriving
    except OSError:
        pass  # one end has gone; the other is told by `serve`
    finally:
        arriving.cancel()


async def serve(listen: int, target: int) -> asyncio.Server:
    """Open one line."""
    there, back = Way(), Way()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(carry(reader, far_writer, there), carry(far_reader, writer, back))
        writer.close()
        far_writer.close()

    return await asyncio.start_server(accept, "127.0.0.1", listen, limit=CHUNK)


def change(over: asyncio.Event) -> None:
    """Take a rate and a delay from the standard input, and say "set"; where it ends, all is over."""
    told = sys.stdin.readline().split()
    if told:
        Way.rate, Way.delay = float(told[0]) * 1e6 / 8, float(told[1]) / 1e3
        print("set", flush=True)
    else:
        over.set()


async def main(pairs: list[str]) -> None:
    servers = [await serve(*map(int, pair.split(":"))) for pair in pairs]
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, change, over)
    print("ready", flush=True)
    await over.wait()
    for server in servers:
        server.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
