"""Endpoints with https:// are reached over TLS."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
import trustme
from support import Log

from keywork import Client, Context, Job, UnavailableError, Worker
from keywork.testing import FakeServer
from keywork.testing._services import QueueAdmin, WorkQueue
from keywork.v1.queue_admin_pb2_grpc import add_QueueAdminServicer_to_server
from keywork.v1.work_queue_pb2_grpc import add_WorkQueueServicer_to_server


class Secure:
    """A fake server's second door."""

    def __init__(self, fake: FakeServer) -> None:
        authority = trustme.CA()
        certificate = authority.issue_cert("localhost")
        chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
        key = certificate.private_key_pem.bytes()
        self.roots = authority.cert_pem.bytes()
        self._server = grpc.server(ThreadPoolExecutor(8))
        add_WorkQueueServicer_to_server(WorkQueue(fake._fake), self._server)  # type: ignore[no-untyped-call]
        add_QueueAdminServicer_to_server(QueueAdmin(fake._fake), self._server)  # type: ignore[no-untyped-call]
        port = self._server.add_secure_port("localhost:0", grpc.ssl_server_credentials([(key, chain)]))
        self.endpoint = f"https://localhost:{port}"
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait()


@pytest.fixture
def secure(server: FakeServer) -> Iterator[Secure]:
    secure = Secure(server)
    yield secure
    secure.stop()


async def test_a_server_with_a_known_certificate_is_trusted(server: FakeServer, secure: Secure) -> None:
    seen: Log[str] = Log()

    async def handler(context: Context, job: Job) -> None:
        seen.add(job.key)

    async with Client(secure.endpoint, credentials=grpc.ssl_channel_credentials(secure.roots)) as client:
        assert (await client.submit("q", "a")).accepted
        async with Worker(client, ["q"], handler):
            await server.until("the end", lambda seen: seen.settled("complete") == ["a"])
    assert seen.all() == ["a"]


async def test_a_server_with_an_unknown_certificate_is_not(secure: Secure) -> None:
    async with Client(secure.endpoint, submit_deadline=0.5) as client:
        with pytest.raises(UnavailableError) as caught:
            await client.submit("q", "a")
    assert caught.value.has_no_side_effects()
