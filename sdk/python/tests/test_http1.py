"""The small HTTP client, against answers of all kinds."""

import asyncio
import contextlib
import unittest

import context  # noqa: F401
from aqueduct import http1


def fetch(*pieces, method="GET", body=None, headers=None):
    """What the client makes of an answer that arrives in pieces; and what it had sent."""

    async def go():
        sent = []

        async def serve(reader, writer):
            with contextlib.suppress(EOFError, OSError):  # the client may leave in the middle
                sent.append(await reader.readuntil(b"\r\n\r\n"))
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            async with http1.request(method, f"http://127.0.0.1:{port}/a?b=c", headers or {}, body) as answer:
                return answer.status, await answer.read(), sent[0]

    return asyncio.run(asyncio.wait_for(go(), 10))


class Answers(unittest.TestCase):
    def test_every_way_to_end_a_body(self):
        for raw in (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhe\r\n003\r\nllo\r\n0\r\nTrailer: x\r\n\r\n",
            b"HTTP/1.0 200 OK\r\n\r\nhello",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200\nCONTENT-LENGTH:5\n\nhello",
        ):
            for pieces in ([raw], [raw[i : i + 1] for i in range(len(raw))]):
                self.assertEqual(fetch(*pieces)[:2], (200, b"hello"), raw)
        self.assertEqual(fetch(b"HTTP/1.1 204 No Content\r\n\r\n")[:2], (204, b""))

    def test_a_body_that_is_cut_off_is_no_body(self):
        for raw in (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhell",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Le",
            b"",
        ):
            with self.assertRaises(EOFError, msg=raw):
                fetch(raw)

    def test_what_is_not_http(self):
        for raw in (
            b"SSH-2.0\r\n\r\n",
            b"HTTP/1.1 abc\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\nX: " + b"x" * http1.MAX_LINE * 2 + b"\r\n\r\n",
        ):
            with self.assertRaises(http1.Malformed, msg=raw[:60]):
                fetch(raw)

    def test_requests(self):
        sent = fetch(b"HTTP/1.1 204 x\r\n\r\n", method="POST", body=b"{}", headers={"A": "b"})[2]
        self.assertTrue(sent.startswith(b"POST /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:"), sent)
        for header in (b"\r\nA: b\r\n", b"\r\nContent-Length: 2\r\n", b"\r\nConnection: close\r\n"):
            self.assertIn(header, sent)
        with self.assertRaises(ValueError):
            fetch(b"", headers={"A": "b\r\nC: d"})


if __name__ == "__main__":
    unittest.main()
