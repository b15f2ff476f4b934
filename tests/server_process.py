"""Starts the program's `serve` for tests, on a port of the kernel's choice, and ends it by its process id."""

import http.client
import json
import os
import re
import select
import signal
import subprocess
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 120
LOG_BYTES = 1 << 20


def program() -> str:
    return os.environ.get("DEEPINFER_PROGRAM", str(ROOT / "build" / "deepinfer"))


class Server:
    """A running server. Use as a context manager."""

    def __init__(self, *arguments: str):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("DEEPINFER_")}
        self.process = subprocess.Popen(
            [program(), "serve", "--port", "0", *arguments], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment
        )
        self.log = b""  # what it wrote, the last of it
        self.port = self._wait_for_port()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.url = f"http://127.0.0.1:{self.port}"

    def _wait_for_port(self) -> int:
        deadline = time.monotonic() + START_SECONDS
        descriptor = self.process.stderr.fileno()
        while time.monotonic() < deadline:
            if select.select([descriptor], [], [], 0.2)[0]:
                piece = os.read(descriptor, 65536)
                self.log += piece
                found = re.search(rb"listening on https?://[^:]+:(\d+)", self.log)
                if found:
                    return int(found.group(1))
                if not piece:
                    break
        self.process.kill()
        raise AssertionError(f"the server did not start: {self.log.decode(errors='replace')}")

    def _read(self) -> None:
        """Keeps the pipe empty: a server whose log nobody takes would wait for ever."""
        while piece := os.read(self.process.stderr.fileno(), 65536):
            self.log = (self.log + piece)[-LOG_BYTES:]

    def terminate(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join(timeout=60)
        self.process.stderr.close()


def request(server, method, path, body=None, headers=None):
    """Status, headers and body of one plain request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    connection.request(method, path, body=data, headers={"Content-Type": "application/json", **(headers or {})})
    answer = connection.getresponse()
    result = answer.status, dict(answer.getheaders()), answer.read()
    connection.close()
    return result
