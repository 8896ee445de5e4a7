"""The examples are complete programs, and the README's first one is `quickstart`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from keywork import Submit
from keywork._connection import endpoints_from_environment
from keywork.testing import FakeServer

HERE = Path(__file__).parents[1]
EXAMPLES = HERE / "examples"


@contextmanager
def running(name: str, server: FakeServer) -> Iterator[subprocess.Popen[str]]:
    """An example as a process of its own, at this server."""
    environment = os.environ | {
        "KEYWORK_SERVER": server.endpoint,
        "PYTHONPATH": str(HERE / "src"),
    }
    code = (EXAMPLES / f"{name}.py").read_text().replace("sleep(10)", "sleep(1)")
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_quickstart(server: FakeServer) -> None:
    with running("quickstart", server) as process:
        server.wait_until("the job", lambda seen: seen.settled("complete") == ["cluster-eu-1"])
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=20)
    assert (process.returncode, output, errors) == (0, "cluster-eu-1, attempt 1\n", "")


def test_batch_submit(server: FakeServer) -> None:
    with running("batch_submit", server) as process:
        output, errors = process.communicate(timeout=30)
    assert (process.returncode, output, errors) == (0, "accepted 10000, busy 0, failed 0\n", "")


def test_long_job(server: FakeServer) -> None:
    with server.sync_client() as client:
        client.submit("rebuild", "tenant-1", "1")
        client.submit("rebuild", "tenant-2", "many")
        client.submit("rebuild", "tenant-3", "1000")
    with running("long_job", server) as process:
        server.wait_until("the job", lambda seen: seen.settled("complete") == ["tenant-1"])
        server.wait_until("the other", lambda seen: seen.settled("fail") == ["tenant-2"])
        with server.sync_client() as client:
            client.purge_queue("rebuild")
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=20)
    # Nothing else is told where logging is not set up.
    assert (process.returncode, errors) == (0, "lost the lease of key 'tenant-3' of queue rebuild: CANCELLED\n")
    assert "tenant-1 step 0, fencing number" in output
    assert "tenant-3 stopped: CancelReason.JOB_CANCELLED" in output


@pytest.mark.parametrize("signals", [1, 2])
def test_graceful_shutdown(server: FakeServer, signals: int) -> None:
    with server.sync_client() as client:
        client.submit_batch([Submit("sync", "account-1")])
    with running("graceful_shutdown", server) as process:
        server.wait_until("the delivery", lambda seen: bool(seen.delivered))
        assert process.stdout is not None
        while process.stdout.readline() != "started account-1\n":
            pass
        process.send_signal(signal.SIGTERM)
        server.wait_until("the drain", lambda seen: seen.drains == 1)
        if signals == 2:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode == (0 if signals == 1 else 1)
    assert server.seen().settled("complete" if signals == 1 else "release") == ["account-1"]


def test_testing(server: FakeServer) -> None:
    with running("testing", server) as process:
        output, errors = process.communicate(timeout=30)
    assert (process.returncode, output, errors) == (0, "", "")


def test_the_readmes_first_program_is_quickstart() -> None:
    first = re.search(r"```python\n(.*?)```", (HERE / "README.md").read_text(), re.DOTALL)
    assert first is not None
    assert first[1] == (EXAMPLES / "quickstart.py").read_text()
    assert len(first[1].splitlines()) <= 20


def test_a_client_without_endpoints_asks_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYWORK_SERVER", " http://a:1, http://b:2 ,")
    assert [endpoint.uri for endpoint in endpoints_from_environment()] == ["http://a:1", "http://b:2"]
    monkeypatch.setenv("KEYWORK_SERVER", "")
    assert [endpoint.uri for endpoint in endpoints_from_environment()] == ["http://127.0.0.1:50051"]
    monkeypatch.setenv("KEYWORK_SERVER", "a:1")
    with pytest.raises(ValueError, match=r"^KEYWORK_SERVER: .*'a:1'.*http://HOST:PORT"):
        endpoints_from_environment()
