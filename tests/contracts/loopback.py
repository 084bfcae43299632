"""A server that gives each client exactly the chunks it is told to.

With `Transfer-Encoding: chunked` an HTTP client hands over one chunk of the transfer at a time,
whatever the segments of TCP are: so fragments of one byte cost no waiting for each other.
"""

from __future__ import annotations

import socketserver
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any

HOST = "127.0.0.1"


@dataclass
class Answer:
    """What to answer a request with.

    With ``rest_after``, the last chunk waits for that event: a server that keeps its stream open.
    """

    chunks: Sequence[bytes]
    content_type: str = "text/event-stream"
    rest_after: threading.Event | None = None


class Loopback:
    """Serve answers, each below an address of its own, to GET and POST."""

    def __init__(self) -> None:
        self._answers: list[Answer] = []
        self.requests: list[tuple[str, bytes]] = []
        self._server = _Server((HOST, 0), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def add(self, answer: Answer | Sequence[bytes]) -> str:
        """Serve an answer; give the address that SDKs may add their paths to."""
        self._answers.append(answer if isinstance(answer, Answer) else Answer(answer))
        return f"http://{HOST}:{self._server.server_address[1]}/{len(self._answers) - 1}"

    def answer_to(self, path: str) -> Answer:
        return self._answers[int(path.split("/")[1].partition("?")[0])]

    def __enter__(self) -> Loopback:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for answer in self._answers:
            if answer.rest_after is not None:
                answer.rest_after.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False  # clients keep their connections

    def __init__(self, address: tuple[str, int], loopback: Loopback) -> None:
        self.loopback = loopback
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client may leave whenever it likes; anything else is our mistake and is shown.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        loopback: Loopback = self.server.loopback  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        loopback.requests.append((self.path, body))
        answer = loopback.answer_to(self.path)
        self.send_response(200)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        chunks = [chunk for chunk in answer.chunks if chunk]
        try:
            for index, chunk in enumerate(chunks):
                if answer.rest_after is not None and index == len(chunks) - 1:
                    self.wfile.flush()
                    answer.rest_after.wait(30)
                self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()
        except OSError:
            self.close_connection = True  # the client has left

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        pass
