"""Check that a call of a tool or an agent comes from Aqueduct.

    body = request.rfile.read(length)        # the bytes as they came, before they are parsed
    verify(secret, request.headers, body)    # raises BadSignature
"""

import hashlib
import hmac
import time
from typing import Mapping, Optional, Union

from .errors import AqueductError

#: Seconds a signature may be off: older ones may have been overheard and sent again.
TOLERANCE = 300.0


class BadSignature(AqueductError):
    """The request was not signed by who knows the secret, too long ago, or for another body."""


def verify(secret: Union[str, bytes], headers: Mapping[str, str], body: bytes, tolerance: float = TOLERANCE,
           now: Optional[float] = None) -> None:
    """Check X-Aqueduct-Signature and X-Aqueduct-Content-SHA256 of a request against its body."""
    given = {name.lower(): value for name, value in headers.items()}
    parts = [part.strip().partition("=") for part in given.get("x-aqueduct-signature", "").split(",")]
    signed_at = next((value for name, _, value in parts if name == "t"), "")
    if not (signed_at.isascii() and signed_at.isdigit()):
        raise BadSignature("bad_signature", "the request is not signed")
    if abs((time.time() if now is None else now) - int(signed_at)) > tolerance:
        raise BadSignature("bad_signature", "the signature is too old, or a clock is wrong")
    key = secret.encode() if isinstance(secret, str) else secret
    want = hmac.new(key, signed_at.encode() + b"." + body, hashlib.sha256).hexdigest()
    if not any(name == "v1" and hmac.compare_digest(value.encode(), want.encode()) for name, _, value in parts):
        raise BadSignature("bad_signature", "the signature is not of this secret and body")
    if given.get("x-aqueduct-content-sha256", "") != hashlib.sha256(body).hexdigest():
        raise BadSignature("bad_signature", "the hash is not of this body")
