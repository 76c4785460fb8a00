"""Relays TCP connections, and cuts, holds and delays them on command.

    relay.py

It reads commands from its standard input, and answers each with one line. PATTERN is a shell pattern
of connection names.

    listen NAME HOST TARGET_HOST:PORT   a listener whose connections are called NAME: its port
    transparent NAME HOST               a listener for connections that nft redirected here: each is
                                        relayed to its first destination. Connections of the relay have
                                        the mark 7. Its port
    target NAME HOST:PORT               another target for new connections: "ok"
    cut PATTERN [one]                   resets all such connections, or one that is in use: their number
    refuse PATTERN | accept PATTERN     resets new connections from now on, or no more: "ok"
    hold PATTERN | release PATTERN      relays nothing in either direction, or goes on: "ok"
    delay PATTERN LOW HIGH              delays each piece by LOW to HIGH seconds, pieces of different
                                        connections and directions independently: "ok"
    count PATTERN                       their number
"""

import asyncio
import collections
import fnmatch
import random
import socket
import struct
import sys

SO_ORIGINAL_DST = 80
MARK = 7
PIECE = 1 << 18
MUCH = 1 << 12  # more than keepalives


class Rules:
    """What applies to names, now."""

    def __init__(self):
        self.held, self.refused, self.delays = set(), set(), {}
        self.changed = asyncio.Event()

    @staticmethod
    def matches(patterns, name):
        return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)

    def delay(self, name):
        for pattern, (low, high) in self.delays.items():
            if fnmatch.fnmatch(name, pattern):
                return random.uniform(low, high)
        return 0

    def notify(self):
        self.changed.set()
        self.changed = asyncio.Event()

    async def until_released(self, name):
        while self.matches(self.held, name):
            await self.changed.wait()


class Connection:
    """Two sockets, and a task for each direction."""

    def __init__(self, rules, name, near, far):
        self.rules, self.name, self.sockets = rules, name, (near, far)
        self.open, self.pumps, self.used_at = True, [], 0.0

    async def run(self):
        near, far = self.sockets
        self.pumps = [asyncio.ensure_future(self._pump(a, b)) for a, b in ((near, far), (far, near))]
        try:
            await asyncio.gather(*self.pumps)
        except (OSError, asyncio.CancelledError):
            self.cut()
        if self.open:
            self.open = False
            for end in self.sockets:
                end.close()

    async def _pump(self, source, sink):
        loop = asyncio.get_running_loop()
        waiting, arrived = collections.deque(), asyncio.Event()

        async def write():
            while True:
                while not waiting:
                    arrived.clear()
                    await arrived.wait()
                due, piece = waiting.popleft()
                if (rest := due - loop.time()) > 0:
                    await asyncio.sleep(rest)
                await self.rules.until_released(self.name)
                if not piece:
                    sink.shutdown(socket.SHUT_WR)
                    return
                await loop.sock_sendall(sink, piece)

        async def read():
            last = 0
            while True:
                piece = await loop.sock_recv(source, PIECE)
                now = loop.time()
                if len(piece) >= MUCH:
                    self.used_at = now
                last = max(last, now + self.rules.delay(self.name))
                waiting.append((last, piece))
                arrived.set()
                if not piece:
                    return
                while len(waiting) > 64:
                    await asyncio.sleep(0.001)

        tasks = [asyncio.ensure_future(read()), asyncio.ensure_future(write())]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    def cut(self):
        """Resets both ends."""
        if self.open:
            self.open = False
            for pump in self.pumps:
                pump.cancel()
            for end in self.sockets:
                reset(end)


def reset(end):
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    # Cancelled tasks would remove the descriptor later, when its number may be another socket's.
    asyncio.get_running_loop().remove_reader(end)
    asyncio.get_running_loop().remove_writer(end)
    end.close()


class Relay:
    def __init__(self):
        self.rules = Rules()
        self.connections, self.targets, self.tasks = set(), {}, set()

    def keep(self, coroutine):
        task = asyncio.ensure_future(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def listen(self, name, host, transparent):
        listener = socket.create_server((host, 0), backlog=256)
        listener.setblocking(False)
        self.keep(self._accept(listener, name, transparent))
        return listener.getsockname()[1]

    async def _accept(self, listener, name, transparent):
        loop = asyncio.get_running_loop()
        while True:
            near, _ = await loop.sock_accept(listener)
            near.setblocking(False)
            self.keep(self._relay(near, name, transparent))

    async def _relay(self, near, name, transparent):
        loop = asyncio.get_running_loop()
        if transparent:
            answer = near.getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
            port, address = struct.unpack("!2xH4s8x", answer)
            target = (socket.inet_ntoa(address), port)
        else:
            target = self.targets[name]
        if self.rules.matches(self.rules.refused, name):
            reset(near)
            return
        far = socket.socket()
        far.setblocking(False)
        try:
            if transparent:
                far.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, MARK)
            await loop.sock_connect(far, target)
        except OSError:
            reset(far)
            reset(near)
            return
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(self.rules, name, near, far)
        self.connections.add(connection)
        try:
            await connection.run()
        finally:
            self.connections.discard(connection)

    def matching(self, pattern):
        return [c for c in self.connections if c.open and fnmatch.fnmatch(c.name, pattern)]

    def obey(self, words):
        match words:
            case ["listen", name, host, target]:
                self.targets[name] = address_of(target)
                return self.listen(name, host, False)
            case ["transparent", name, host]:
                return self.listen(name, host, True)
            case ["target", name, target]:
                self.targets[name] = address_of(target)
            case ["cut", pattern, *one]:
                chosen = self.matching(pattern)
                if one:
                    busy = [c for c in chosen if c.used_at > asyncio.get_running_loop().time() - 1]
                    chosen = random.sample(busy, min(1, len(busy)))
                for connection in chosen:
                    connection.cut()
                return len(chosen)
            case ["count", pattern]:
                return len(self.matching(pattern))
            case ["refuse", pattern]:
                self.rules.refused.add(pattern)
            case ["accept", pattern]:
                self.rules.refused.discard(pattern)
            case ["hold", pattern]:
                self.rules.held.add(pattern)
            case ["release", pattern]:
                self.rules.held.discard(pattern)
            case ["delay", pattern, low, high]:
                self.rules.delays.pop(pattern, None)
                if float(high) > 0:
                    self.rules.delays[pattern] = (float(low), float(high))
            case _:
                raise ValueError(f"unknown command {words}")
        self.rules.notify()
        return "ok"

    async def run(self):
        loop = asyncio.get_running_loop()
        commands = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
        while line := await commands.readline():
            print(self.obey(line.decode().split()), flush=True)


def address_of(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


async def main():
    await Relay().run()


if __name__ == "__main__":
    asyncio.run(main())
