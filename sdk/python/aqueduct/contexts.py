"""`run.context`: what an agent wants to find again, kept by Aqueduct under a key (docs/context.md)."""

import asyncio
import base64
import http.client
import json
import time
from typing import Any, Dict, NamedTuple, Optional, Tuple
from urllib.parse import quote, urlencode, urlsplit

from .errors import ContextFailed, ContextMoved
from .toolcall import PASSING

#: How long one request may take, in seconds: 16 MiB have to get there.
TIMEOUT = 120.0
#: How often a request is made that the server could not take at the moment.
TRIES = 4


class Entry(NamedTuple):
    """An entry: without its content after put(), with it after get()."""

    key: str
    version: int
    content_type: str
    content: bytes = b""

    @property
    def value(self) -> Any:
        """The content as what was put: JSON, a text, or bytes."""
        kind = self.content_type.partition(";")[0]
        if kind == "application/json":
            return json.loads(self.content)
        return self.content.decode() if kind.startswith("text/") else self.content


class Contexts:
    """The context store, by the token of one run. put, get and delete block; aput, aget and adelete are for async functions."""

    def __init__(self, base_url: str, token: str):
        self._base, self._token = base_url.rstrip("/"), token

    def put(
        self,
        content: Any,
        key: Optional[str] = None,
        *,
        if_version: Optional[int] = None,
        content_type: Optional[str] = None,
        owner: str = "session",
        ttl: Optional[int] = None,
    ) -> Entry:
        """Writes an entry: a new one, or with a key its next version.

        content       bytes, a str, or anything that JSON can hold
        if_version    the version that is replaced; another one raises ContextMoved
        owner         of a new one: "session", "run", "user" or "agent"
        ttl           seconds until it expires; 0 is never. None keeps what it was, or is never
        """
        kind, raw = encoded(content, content_type)
        query: Dict[str, Any] = {} if ttl is None else {"ttl_seconds": ttl}
        if key is not None:
            return self._entry(self._send("PUT", key, raw, kind, query, if_version))
        query["owner_type"] = owner
        if kind == "application/json":  # there the body is what describes the entry, and the content within
            raw = b'{"content":' + raw + b"," + json.dumps(query).encode()[1:]
            query = {}
        return self._entry(self._send("POST", None, raw, kind, query, None))

    def get(self, key: str) -> Entry:
        """Reads an entry. One that is not there, or not for this run, raises ContextFailed with the code not_found."""
        headers, raw = self._send("GET", key, None, "", {}, None)
        return Entry(key, int(headers.get("etag", "0").strip('"')), headers.get("content-type", ""), raw)

    def delete(self, key: str, if_version: Optional[int] = None) -> None:
        """Deletes an entry."""
        self._send("DELETE", key, None, "", {}, if_version)

    def file(self, part: dict) -> bytes:
        """The bytes of a part of a message (an image, a document), which holds them or names them by a URL of Aqueduct's. Any other URL
        is a ValueError: it is the sender's, and may lead anywhere."""
        source = part.get("source")
        source = source if isinstance(source, dict) else {}
        kind, value = source.get("type"), str(source.get("value", ""))
        if kind == "data":
            return base64.b64decode(value)
        path = value.removeprefix(self._base)
        if kind != "url" or not path.startswith("/api/threads/"):
            raise ValueError("the part names no file of Aqueduct's")
        return self._request("GET", path, None, {})[1]

    async def afile(self, part: dict) -> bytes:
        return await asyncio.to_thread(self.file, part)

    async def aput(self, content: Any, key: Optional[str] = None, **more: Any) -> Entry:
        return await asyncio.to_thread(self.put, content, key, **more)

    async def aget(self, key: str) -> Entry:
        return await asyncio.to_thread(self.get, key)

    async def adelete(self, key: str, if_version: Optional[int] = None) -> None:
        await asyncio.to_thread(self.delete, key, if_version)

    def _entry(self, answer: Tuple[Dict[str, str], bytes]) -> Entry:
        body = json.loads(answer[1])
        return Entry(body["context_key"], body["version"], body["content_type"])

    def _send(
        self, method: str, key: Optional[str], raw: Optional[bytes], kind: str, query: Dict[str, Any], version: Optional[int]
    ) -> Tuple[Dict[str, str], bytes]:
        """One request, again while the server is away. Of a connection that breaks it is not known whether the request counted, so only
        what may be done twice is done again."""
        path = "/v1/context" + ("" if key is None else "/" + quote(key, safe="")) + ("?" + urlencode(query) if query else "")
        headers = {}
        if kind:
            headers["Content-Type"] = kind
        if version is not None:
            headers["If-Match"] = f'"{version}"'
        return self._request(method, path, raw, headers)

    def _request(self, method: str, path: str, raw: Optional[bytes], headers: Dict[str, str]) -> Tuple[Dict[str, str], bytes]:
        base = urlsplit(self._base)
        if base.scheme not in ("http", "https"):
            raise ValueError("no address of Aqueduct: it sends it as x-aqueduct-base-url")
        headers = {**headers, "Authorization": "Bearer " + self._token}
        for left in reversed(range(TRIES)):
            status, answered, body = self._once(base.scheme == "https", base.netloc, method, base.path + path, raw, headers)
            if not left or status not in PASSING and (status or method != "GET"):
                break
            time.sleep(0.2 * (TRIES - left))
        if status // 100 == 2:
            return answered, body
        raise failure(status, body)

    def _once(
        self, secure: bool, netloc: str, method: str, path: str, raw: Optional[bytes], headers: Dict[str, str]
    ) -> Tuple[int, Dict[str, str], bytes]:
        conn = (http.client.HTTPSConnection if secure else http.client.HTTPConnection)(netloc, timeout=TIMEOUT)
        try:
            conn.request(method, path, raw, headers)
            answer = conn.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        except (OSError, http.client.HTTPException):
            return 0, {}, b""
        finally:
            conn.close()


def encoded(content: Any, content_type: Optional[str]) -> Tuple[str, bytes]:
    """A content's type and bytes."""
    if isinstance(content, (bytes, bytearray, memoryview)):
        return content_type or "application/octet-stream", bytes(content)
    if isinstance(content, str):
        return content_type or "text/plain; charset=utf-8", content.encode()
    return content_type or "application/json", json.dumps(content).encode()


def failure(status: int, raw: bytes) -> ContextFailed:
    """What an answer that is no success means."""
    try:
        body = json.loads(raw)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        body = {}
    if not status:
        return ContextFailed("unreachable", "Aqueduct could not be reached, so whether it was written is not known.")
    code = str(body.get("code", f"http_{status}"))
    message = str(body.get("detail") or body.get("title") or f"Aqueduct answered HTTP {status}.")
    return ContextMoved(code, message) if code == "version_conflict" else ContextFailed(code, message)
