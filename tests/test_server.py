"""The fragmenting server: what it writes, and that no two writes ever come together."""

from __future__ import annotations

import http.client
import math
import socket
import struct
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from seamstream.testing import FragmentingServer, server
from seamstream.testing.fragmentations import of_size

PAYLOAD = "data: 縫い目 🧵\n\n".encode() * 5
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="the kernel has to tell")


@contextmanager
def connected(to: FragmentingServer, method: str = "GET", **rest: Any) -> Iterator[Any]:
    with closing(http.client.HTTPConnection("127.0.0.1", to.port, timeout=30)) as connection:
        connection.request(method, "/any/path?at=all", **rest)
        with connection.getresponse() as response:
            yield response


def reads(response: http.client.HTTPResponse) -> list[bytes]:
    return list(iter(lambda: response.read1(65536), b""))


@linux_only
@pytest.mark.parametrize("size", [1, 2, 3, 8, 64, len(PAYLOAD) - 1, len(PAYLOAD), 10_000])
def test_server_every_read_gives_exactly_one_write(size: int) -> None:
    with FragmentingServer(PAYLOAD, write_size=size) as running, connected(running) as response:
        assert reads(response) == of_size(PAYLOAD, size)


@linux_only
def test_server_every_write_leaves_as_its_own_segment() -> None:
    # The kernel's own count of the segments with data in them that reached the client.
    segments_with_data_at = 152  # tcpi_data_segs_in of struct tcp_info
    with (
        FragmentingServer(PAYLOAD, write_size=7) as running,
        socket.create_connection(("127.0.0.1", running.port), timeout=30) as client,
    ):
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = b""
        while chunk := client.recv(65536):
            received += chunk
        info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    (segments,) = struct.unpack_from("=I", info, segments_with_data_at)
    assert received.endswith(b"\r\n\r\n" + PAYLOAD)
    assert segments == 1 + len(of_size(PAYLOAD, 7))  # the head is one


@linux_only
def test_server_waits_for_a_client_that_leaves_the_bytes_unread() -> None:
    with (
        FragmentingServer(PAYLOAD, write_size=4) as running,
        socket.create_connection(("127.0.0.1", running.port), timeout=30) as client,
    ):
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head = client.recv(65536)
        assert head.endswith(b"\r\n\r\n")
        # Other clients are served meanwhile: plenty of time to write more, if it would.
        for _ in range(3):
            assert client.recv(65536, socket.MSG_PEEK) in of_size(PAYLOAD, 4)
            with connected(running) as response:
                assert reads(response) == of_size(PAYLOAD, 4)
        assert client.recv(65536) == PAYLOAD[:4]
        assert client.recv(65536) == PAYLOAD[4:8]


@pytest.mark.parametrize("payload", [b"", b"\0", b"\xff" * 3, bytes(range(256)) * 40])
@pytest.mark.parametrize("size", [1000, None])
def test_server_takes_any_payload(payload: bytes, size: int | None) -> None:
    with (
        FragmentingServer(payload, write_size=size) as running,
        urllib.request.urlopen(running.url) as response,
    ):
        assert response.read() == payload


def test_server_writes_a_large_payload_at_once() -> None:
    payload = bytes(5_000_000)
    with FragmentingServer(payload, write_size=None) as running, connected(running) as response:
        assert response.read() == payload


def test_server_announces_a_stream_that_ends_with_the_connection() -> None:
    with FragmentingServer(PAYLOAD) as running, connected(running) as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/event-stream"
        assert response.headers["Connection"] == "close"
        assert "Content-Length" not in response.headers
        assert "Transfer-Encoding" not in response.headers
        assert response.read() == PAYLOAD


def test_server_announces_another_content_type_on_request() -> None:
    with (
        FragmentingServer(b"{}", content_type="application/json") as running,
        connected(running) as response,
    ):
        assert response.headers["Content-Type"] == "application/json"
        assert response.read() == b"{}"


def test_server_answers_posts_and_reads_their_bodies() -> None:
    body = b"x" * 300_000
    with FragmentingServer(PAYLOAD, write_size=50) as running:
        for _ in range(2):
            with connected(running, "POST", body=body) as response:
                assert response.read() == PAYLOAD
        assert running.requests == 2


def test_server_answers_head_without_a_body() -> None:
    with FragmentingServer(PAYLOAD) as running, connected(running, "HEAD") as response:
        assert (response.status, response.read()) == (200, b"")


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("DELETE", {}, 501),
        ("POST", {"Transfer-Encoding": "chunked"}, 411),
        ("POST", {"Content-Length": "-1"}, 413),
        ("POST", {"Content-Length": str(1 << 40)}, 413),
    ],
)
def test_server_refuses_what_it_cannot_read(method: str, headers: Any, status: int) -> None:
    with FragmentingServer(PAYLOAD) as running:
        with connected(running, method, headers=headers) as response:
            assert response.status == status
        assert running.requests == 0


def test_server_serves_many_clients_at_once() -> None:
    results: list[bytes] = []

    def fetch(url: str) -> None:
        with urllib.request.urlopen(url) as response:
            results.append(response.read())

    with FragmentingServer(PAYLOAD, write_size=16) as running:
        threads = [threading.Thread(target=fetch, args=(running.url,)) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert running.requests == 12
    assert results == [PAYLOAD] * 12


def test_server_ends_after_max_requests() -> None:
    with FragmentingServer(PAYLOAD, write_size=None, max_requests=2) as running:
        for _ in range(2):
            assert not running.wait(0)
            with connected(running) as response:
                assert response.read() == PAYLOAD
        assert running.wait(30)
        with connected(running) as response:
            assert response.status == 503
        assert running.requests == 2


def test_server_survives_clients_that_leave() -> None:
    with FragmentingServer(PAYLOAD, write_size=1, max_requests=1) as running:
        with socket.create_connection(("127.0.0.1", running.port), timeout=30) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            client.recv(1)
        assert running.wait(30)


def test_server_resets_answers_that_it_cannot_finish() -> None:
    # The client must not take what it got for the whole.
    with FragmentingServer(PAYLOAD, write_size=1) as running:
        client = socket.create_connection(("127.0.0.1", running.port), timeout=30)
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(1) == b"H"
    with client, pytest.raises(ConnectionResetError):
        b"".join(iter(lambda: client.recv(65536), b""))


def test_server_closes_while_clients_hang() -> None:
    running = FragmentingServer(bytes(50_000_000), write_size=None)
    running.start()
    clients = [socket.create_connection(("127.0.0.1", running.port), timeout=30) for _ in range(3)]
    clients[0].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")  # and never reads
    assert clients[0].recv(1) == b"H"
    clients[1].sendall(b"GET / HTTP")  # and never goes on
    running.close()
    running.close()
    for client in clients:
        client.close()
    with pytest.raises(OSError, match=r".*"):
        socket.create_connection(("127.0.0.1", running.port), timeout=30)


def test_server_closes_without_having_started() -> None:
    FragmentingServer(PAYLOAD).close()


def test_server_delays_each_write() -> None:
    with (
        FragmentingServer(b"abc", write_size=1, delay=0.001) as running,
        connected(running) as response,
    ):
        assert response.read() == b"abc"


def test_server_writes_all_where_the_kernel_does_not_tell(monkeypatch: Any) -> None:
    monkeypatch.setattr(server, "_NETLINK_SOCK_DIAG", 31)  # a netlink family without members
    with FragmentingServer(PAYLOAD, write_size=20) as running, connected(running) as response:
        assert response.read() == PAYLOAD


def test_server_listens_on_the_loopback_interface_at_the_port_it_names() -> None:
    with FragmentingServer(PAYLOAD) as running:
        assert running.url == f"http://127.0.0.1:{running.port}/"
        with pytest.raises(OSError, match=r".*"):
            FragmentingServer(PAYLOAD, port=running.port)


@pytest.mark.parametrize(
    "wrong",
    [
        {"write_size": 0},
        {"write_size": -1},
        {"delay": -0.1},
        {"delay": math.nan},
        {"delay": math.inf},
        {"max_requests": 0},
    ],
)
def test_server_refuses_values_that_mean_nothing(wrong: Any) -> None:
    with pytest.raises(ValueError):
        FragmentingServer(PAYLOAD, **wrong)
