import hashlib
import hmac
import unittest

import context  # noqa: F401

from aqueduct import BadSignature, verify

SECRET, BODY, NOW = "a secret of the tool", b'{"args":{"a":"<b> & c"}}', 1_700_000_000.0


def headers(secret=SECRET, body=BODY, at=NOW):
    text = str(int(at))
    mac = hmac.new(secret.encode(), text.encode() + b"." + body, hashlib.sha256).hexdigest()
    return {"X-Aqueduct-Signature": f"t={text},v1={mac}", "x-aqueduct-content-sha256": hashlib.sha256(body).hexdigest()}


class Verify(unittest.TestCase):
    def test_good(self):
        verify(SECRET, headers(), BODY, now=NOW + 299)
        verify(SECRET.encode(), headers(), BODY, now=NOW - 299)
        rotated = headers()
        rotated["X-Aqueduct-Signature"] += ",v1=" + "0" * 64
        verify(SECRET, rotated, BODY, now=NOW)

    def test_bad(self):
        without_hash = headers()
        del without_hash["x-aqueduct-content-sha256"]
        for name, given, body, now in [
            ("another secret", headers(secret="a secret of another"), BODY, NOW),
            ("another body", headers(), BODY + b" ", NOW),
            ("old", headers(), BODY, NOW + 301),
            ("early", headers(), BODY, NOW - 301),
            ("another time", {**headers(), "X-Aqueduct-Signature": headers()["X-Aqueduct-Signature"].replace("t=17", "t=18")}, BODY, 1.8e9),
            ("unsigned", {}, BODY, NOW),
            ("no hash", without_hash, BODY, NOW),
            ("nonsense", {"X-Aqueduct-Signature": "t=\u00b2,v1=\u00e9"}, BODY, NOW),
        ]:
            with self.subTest(name), self.assertRaises(BadSignature):
                verify(SECRET, given, body, now=now)


if __name__ == "__main__":
    unittest.main()
