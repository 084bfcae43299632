"""A server that answers as told: in which pieces, how framed and encoded, and how it ends."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import brotli

PATIENCE = 30.0  # seconds until a connection is given up: a failure, never a hang
TERMINATOR = b"0\r\n\r\n"


@dataclass
class Answer:
    """What to send: each piece is one write, of which the next waits for a permit, if any."""

    pieces: list[bytes]
    content_type: str | None = "text/event-stream"
    encoding: Literal["identity", "gzip", "deflate", "br"] = "identity"
    transfer: Literal["chunked", "length", "close"] = "chunked"
    ending: Literal["well", "dies", "stalls"] = "well"
    joined: bool = False
    """Whether the end of a chunked body comes together with the last piece."""
    permits: threading.Semaphore | None = None
    before_the_end: Callable[[], object] | None = None
    """Called between the last piece and the ending."""


class StreamServer:
    """Answer each request on the loopback interface by its path; connections are kept alive."""

    def __init__(self, *answers: Answer, **named: Answer) -> None:
        self.answers = {f"/{index}": answer for index, answer in enumerate(answers)}
        self.answers |= {f"/{name}": answer for name, answer in named.items()}
        self.connections = 0
        self.closing = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.open: set[socket.socket] = set()
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.lock = threading.Lock()

    def url(self, name: str | int = 0) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}/{name}"

    def __enter__(self) -> StreamServer:
        self.threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.lock:
            connections = list(self.open)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def _accept(self) -> None:
        while not self.closing.is_set():
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            connection.settimeout(PATIENCE)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            with self.lock:
                self.connections += 1
                self.open.add(connection)
                self.threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as lines:
            while request := lines.readline():
                length = 0
                while line := lines.readline().strip().lower():
                    if line.startswith(b"content-length:"):
                        length = int(line.partition(b":")[2])
                lines.read(length)
                if not self._answer(connection, self.answers[request.split()[1].decode()]):
                    break
        with self.lock:
            self.open.discard(connection)

    def _answer(self, connection: socket.socket, answer: Answer) -> bool:
        """Answer; tell whether the connection is to be kept."""
        pieces = list(encoded(answer.pieces, answer.encoding))
        head = ["HTTP/1.1 200 OK"]
        if answer.content_type is not None:
            head.append(f"Content-Type: {answer.content_type}")
        if answer.encoding != "identity":
            head.append(f"Content-Encoding: {answer.encoding}")
        if answer.transfer == "chunked":
            head.append("Transfer-Encoding: chunked")
        elif answer.transfer == "length":
            missing = 0 if answer.ending == "well" else 1
            head.append(f"Content-Length: {sum(map(len, pieces)) + missing}")
        else:
            head.append("Connection: close")
        connection.sendall("\r\n".join([*head, "", ""]).encode())
        is_chunked = answer.transfer == "chunked"
        for index, piece in enumerate(pieces):
            if answer.permits is not None:
                assert answer.permits.acquire(timeout=PATIENCE)
            data = b"%x\r\n%s\r\n" % (len(piece), piece) if is_chunked and piece else piece
            if answer.joined and is_chunked and index == len(pieces) - 1:
                data += TERMINATOR
            connection.sendall(data)
        if answer.before_the_end is not None:
            answer.before_the_end()
        if answer.ending == "stalls":
            connection.recv(1)  # until the client goes
            return False
        if answer.ending == "dies":
            # Without chunks an orderly end would be that of the body.
            if answer.transfer != "chunked":
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            return False
        if is_chunked and not answer.joined:
            connection.sendall(TERMINATOR)
        return answer.transfer != "close"


def encoded(pieces: list[bytes], encoding: str) -> Iterator[bytes]:
    """Compress so that each piece can be decoded when it comes."""
    if encoding == "identity":
        yield from pieces
        return
    compressor: Any
    if encoding == "br":
        compressor = brotli.Compressor()
        for piece in pieces:
            yield compressor.process(piece) + compressor.flush()
        yield compressor.finish()
        return
    wbits = zlib.MAX_WBITS | 16 if encoding == "gzip" else zlib.MAX_WBITS
    compressor = zlib.compressobj(wbits=wbits)
    for piece in pieces:
        yield compressor.compress(piece) + compressor.flush(zlib.Z_SYNC_FLUSH)
    yield compressor.flush()
