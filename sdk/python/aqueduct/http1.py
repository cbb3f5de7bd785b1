"""A small HTTP/1.1 client for asyncio: one request a connection, the answer as it comes."""

import asyncio
import ssl
from contextlib import asynccontextmanager
from typing import AsyncIterator, Dict, Mapping, Optional
from urllib.parse import urlsplit

#: Most bytes of one line of headers, and of an answer that is read whole.
MAX_LINE = 64 << 10
MAX_BODY = 64 << 20
CONNECT_TIMEOUT = 10.0


class Malformed(Exception):
    """The answer is not HTTP."""


class Answer:
    """An answer whose body is still to be read."""

    def __init__(self, status: int, headers: Dict[str, str], reader: asyncio.StreamReader):
        self.status, self.headers, self._reader = status, headers, reader

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives. A body that is cut off raises EOFError."""
        if self.status in (204, 304):
            return
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            async for chunk in self._chunked():
                yield chunk
            return
        length = self.headers.get("content-length")
        left = _number(length, 10) if length is not None else None
        while left is None or left > 0:
            chunk = await self._reader.read(MAX_LINE if left is None else min(left, MAX_LINE))
            if not chunk:
                if left:
                    raise EOFError("the answer was cut off")
                return
            if left is not None:
                left -= len(chunk)
            yield chunk

    async def _chunked(self) -> AsyncIterator[bytes]:
        while size := _number((await _line(self._reader)).partition(b";")[0].strip().decode("latin-1"), 16):
            while size:
                chunk = await self._reader.read(min(size, MAX_LINE))
                if not chunk:
                    raise EOFError("the answer was cut off")
                size -= len(chunk)
                yield chunk
            await _line(self._reader)
        while await _line(self._reader):
            pass  # trailers

    async def read(self) -> bytes:
        """The whole body."""
        body = bytearray()
        async for chunk in self.chunks():
            body += chunk
            if len(body) > MAX_BODY:
                raise Malformed("the answer is too large")
        return bytes(body)


@asynccontextmanager
async def request(
    method: str, url: str, headers: Mapping[str, str], body: Optional[bytes] = None
) -> AsyncIterator[Answer]:
    """Sends a request and gives the answer; leaving the block closes the connection."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is not an http address")
    secure = parts.scheme == "https"
    async with asyncio.timeout(CONNECT_TIMEOUT):
        reader, writer = await asyncio.open_connection(
            parts.hostname,
            parts.port or (443 if secure else 80),
            ssl=ssl.create_default_context() if secure else None,
            limit=MAX_LINE,
        )
    try:
        path = (parts.path or "/") + ("?" + parts.query if parts.query else "")
        lines = [f"{method} {path} HTTP/1.1", f"Host: {parts.netloc.rpartition('@')[2]}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a header or address must not hold a line break")
        writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b""))
        await writer.drain()
        yield await _head(reader)
    finally:
        # Not waited for: whoever leaves early must not wait for the other side.
        writer.transport.abort() if secure else writer.close()


async def _head(reader: asyncio.StreamReader) -> Answer:
    while True:
        start = (await _line(reader)).decode("latin-1").split(" ", 2)
        if len(start) < 2 or not start[0].startswith("HTTP/1."):
            raise Malformed("the answer is not HTTP/1")
        headers: Dict[str, str] = {}
        while line := await _line(reader):
            name, colon, value = line.decode("latin-1").partition(":")
            if not colon:
                raise Malformed("a header without a colon")
            headers[name.strip().lower()] = value.strip()
        status = _number(start[1], 10)
        if status >= 200:
            return Answer(status, headers, reader)


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return (await reader.readuntil(b"\n")).rstrip(b"\r\n")
    except asyncio.LimitOverrunError:
        raise Malformed("a line that is too long") from None


def _number(text: str, base: int) -> int:
    if not text or not all(c in "0123456789abcdefABCDEF" for c in text):
        raise Malformed("not a number")
    try:
        return int(text, base)
    except ValueError:
        raise Malformed("not a number") from None
