"""An HTTP server that cuts its answers where it hurts.

TCP is a stream of bytes: where one read ends and the next begins is nobody's promise. Programs that
count on it work until the first proxy, the first slow link, the first long answer. This server
makes the bad case happen every time: it writes its payload a few bytes at a time, and sees to it
that the bytes of two writes never come together.

For each write it waits until the one before has been taken:

1. ``TCP_NODELAY`` is set, and the kernel's send queue has to be empty, which means that the other
   side has acknowledged everything. There is nothing the new bytes could be joined with, so each
   write leaves as a segment of its own.
2. The *client's* receive queue has to be empty: its program has read everything. The kernel tells
   (``sock_diag``) because both ends are on this machine. So each read of the client that asks for
   enough gives exactly the bytes of one write, with any client, however slow, and without a clock.

Both are Linux only. Elsewhere, and where the kernel does not tell, a fixed pause takes their place:
segments then leave one by one in practice, but nothing guarantees it.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import socketserver
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any

from .fragmentations import of_size

if sys.platform == "linux":
    import fcntl
    import termios

__all__ = ["FragmentingServer"]

_HOST = "127.0.0.1"
_BLIND_PAUSE = 0.002  # seconds between writes where nobody tells what the client has read
_PATIENCE = 60.0  # seconds to wait for a client that has stopped reading
_MAX_REQUEST_BODY = 64 << 20
_MAX_CONNECTIONS = 64
_POLL = 0.000_05


class FragmentingServer:
    """Answer every request with one payload, ``write_size`` bytes a write.

    The server listens on the loopback interface only and runs in threads of its own. It answers
    every GET and POST, whatever its path, and closes the connection after the answer, which has no
    Content-Length: the end of the stream is the end of the connection, as with live streams. An
    answer that cannot be finished ends with a reset, so that nobody takes it for a whole one.

        with FragmentingServer(payload, write_size=8) as server:
            httpx.get(server.url)

    Args:
        payload: The body of every answer.
        write_size: How many bytes to write at a time; None: all at once.
        delay: Seconds to pause before each write.
        port: The port to listen on; 0: any free one.
        content_type: The Content-Type of every answer.
        max_requests: How many requests to answer; later ones get status 503. None: no end.
    """

    def __init__(
        self,
        payload: bytes,
        *,
        write_size: int | None = 8,
        delay: float = 0.0,
        port: int = 0,
        content_type: str = "text/event-stream",
        max_requests: int | None = None,
    ) -> None:
        payload = bytes(payload)
        if write_size is None:
            fragments = [payload] if payload else []
        else:
            fragments = of_size(payload, write_size)
        if not 0 <= delay <= threading.TIMEOUT_MAX:  # nan is not
            raise ValueError(f"a delay is from 0 to {threading.TIMEOUT_MAX:g} seconds, not {delay}")
        if max_requests is not None and max_requests < 1:
            raise ValueError(f"max_requests is at least 1, not {max_requests}")
        self._answers = _Answers(fragments, delay, content_type, max_requests)
        self._http = _HTTPServer((_HOST, port), self._answers)
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.02,), name="FragmentingServer", daemon=True
        )

    @property
    def port(self) -> int:
        """The port the server listens on."""
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """The address to get the payload from."""
        return f"http://{_HOST}:{self.port}/"

    @property
    def requests(self) -> int:
        """How many requests have been answered to their end."""
        return self._answers.ended

    def start(self) -> None:
        """Begin to accept connections; the port is open since construction."""
        self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until ``max_requests`` have been answered; say whether they have."""
        return self._answers.is_done.wait(timeout)

    def close(self) -> None:
        """Stop listening and end the answers under way. Closing twice does nothing."""
        self._answers.is_closing.set()
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
        self._http.server_close()
        self._http.end_connections()

    def __enter__(self) -> FragmentingServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class _Answers:
    """What to answer, and how many answers there were; shared by the threads."""

    def __init__(
        self, fragments: list[bytes], delay: float, content_type: str, max_requests: int | None
    ) -> None:
        self.content_type = content_type
        self.ended = 0
        self.is_done = threading.Event()
        self.is_closing = threading.Event()
        self._fragments = fragments
        self._delay = delay
        self._max_requests = max_requests
        self._begun = 0
        self._lock = threading.Lock()

    def begin(self) -> bool:
        """Count a request in; say whether it is to be answered."""
        with self._lock:
            if self._max_requests is not None and self._begun >= self._max_requests:
                return False
            self._begun += 1
            return True

    def end(self) -> None:
        """Count an answer."""
        with self._lock:
            self.ended += 1
            if self.ended == self._max_requests:
                self.is_done.set()

    def write(self, connection: socket.socket) -> None:
        """Write the payload."""
        # The first fragment, too, waits until the head of the answer has been read.
        with _ReadObserver(connection) as observer:
            for fragment in self._fragments:
                observer.wait(self.is_closing)
                if self.is_closing.wait(self._delay):
                    raise ConnectionAbortedError("the server is closing")
                connection.sendall(fragment)


class _ReadObserver:
    """Knows when the other side of a connection has read all that was written to it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._question = b""
        self._netlink: socket.socket | None = None
        if sys.platform == "linux":
            # The client's end: its address is our peer's, its peer's is ours.
            here, there = connection.getsockname(), connection.getpeername()
            self._question = _sock_diag_question(there, here)
            try:
                self._netlink = socket.socket(
                    socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG
                )
                self._netlink.settimeout(1.0)
            except OSError:  # not in this kernel, or not for us
                self._netlink = None

    def __enter__(self) -> _ReadObserver:
        return self

    def __exit__(self, *_: object) -> None:
        if self._netlink is not None:
            self._netlink.close()

    def wait(self, is_closing: threading.Event) -> None:
        """Wait until all is read, or the server is closing."""
        end = time.monotonic() + _PATIENCE
        while not self._all_is_read() and not is_closing.wait(_POLL):
            if time.monotonic() > end:
                raise TimeoutError("the client has stopped reading")

    def _all_is_read(self) -> bool:
        # In this order: what is acknowledged has arrived, and then counts in the receive queue
        # until it is read.
        if self._netlink is None:
            time.sleep(_BLIND_PAUSE)
            return True
        if _unacknowledged(self._connection):
            return False
        unread = self._ask(self._netlink)
        if unread is None:
            self._netlink.close()
            self._netlink = None
            return False
        return unread == 0

    def _ask(self, netlink: socket.socket) -> int | None:
        try:
            netlink.send(self._question)
            answer = netlink.recv(8192)
        except OSError:
            return None
        kind = struct.unpack_from("=IH", answer)[1] if len(answer) >= _UNREAD_AT + 4 else None
        if kind != _SOCK_DIAG_BY_FAMILY:
            return None
        return int(struct.unpack_from("=I", answer, _UNREAD_AT)[0])


# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_UNREAD_AT = 16 + 56  # nlmsghdr, then inet_diag_msg up to idiag_rqueue
_NO_COOKIE = 0xFFFF_FFFF
_ALL_STATES = 0xFFFF_FFFF


def _sock_diag_question(local: tuple[str, int], remote: tuple[str, int]) -> bytes:
    """Build the netlink message that asks for the TCP socket with these two addresses."""
    socket_id = struct.pack(
        "!HH4s12x4s12x",
        local[1],
        remote[1],
        socket.inet_aton(local[0]),
        socket.inet_aton(remote[0]),
    ) + struct.pack("=III", 0, _NO_COOKIE, _NO_COOKIE)
    request = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 0, _ALL_STATES) + socket_id
    length = 16 + len(request)
    return struct.pack("=IHHII", length, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + request


def _unacknowledged(connection: socket.socket) -> int:
    """The number of bytes written that the other side has not acknowledged."""
    if sys.platform == "linux":
        answer = fcntl.ioctl(connection, termios.TIOCOUTQ, b"\0\0\0\0")
        return int.from_bytes(answer, sys.byteorder)
    return 0


class _HTTPServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    # Not http.server's own, which looks up the host's name on the network.
    allow_reuse_address = sys.platform != "win32"  # there it would share the port
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], answers: _Answers) -> None:
        self._is_closing = answers.is_closing
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        self._connections: dict[threading.Thread, socket.socket] = {}
        super().__init__(address, functools.partial(_Handler, answers))

    def process_request(self, request: Any, client_address: Any) -> None:
        while not self._slots.acquire(timeout=0.05):
            if self._is_closing.is_set():
                self.shutdown_request(request)
                return
        thread = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), daemon=True
        )
        with self._lock:
            self._connections[thread] = request
        thread.start()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                del self._connections[threading.current_thread()]
            self._slots.release()

    def end_connections(self) -> None:
        """Wake the threads that wait for a client, and wait until all have ended."""
        with self._lock:
            connections = dict(self._connections)
        # First those that wait for a request, then those that nobody reads from.
        for how, timeout in ((socket.SHUT_RD, 0.5), (socket.SHUT_RDWR, None)):
            for thread, connection in connections.items():
                if thread.is_alive():
                    with contextlib.suppress(OSError):
                        connection.shutdown(how)
            for thread in connections:
                thread.join(timeout)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client may leave whenever it likes; anything else is our mistake and is shown.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "seamstream"
    timeout = 30.0
    disable_nagle_algorithm = True

    def __init__(self, answers: _Answers, *arguments: Any) -> None:
        self._answers = answers
        super().__init__(*arguments)  # which answers, too

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._head(200)

    def do_POST(self) -> None:
        if "Transfer-Encoding" in self.headers:
            self.send_error(411)
            return
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdigit() and int(length) <= _MAX_REQUEST_BODY):
            self.send_error(413)
            return
        left = int(length)
        while left and (piece := self.rfile.read1(min(left, 65536))):
            left -= len(piece)
        self._answer()

    def _answer(self) -> None:
        if not self._answers.begin():
            self.send_error(503, "all requests of this server are answered")
            return
        try:
            self._head(200)
            self._answers.write(self.connection)
        except OSError:
            # Closing is then a reset instead of an end.
            linger = struct.pack("HH" if sys.platform == "win32" else "ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()
        finally:
            self._answers.end()

    def _head(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", self._answers.content_type)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")  # and so the handler closes
        self.end_headers()

    def version_string(self) -> str:
        return self.server_version

    def log_message(self, format: str, *args: Any) -> None:
        pass
