#!/usr/bin/env python3
"""Verify a folder of `aqueduct audit export` without Aqueduct and without a network.

    verify.py FOLDER [--key FILE]... [--head SEQ:HASH]...

--key is the audit's key file; --head is a head from a log, a webhook or a metric (its first
12 hex digits are enough). Exit status 0: nothing was changed. Standard library only.
"""
import argparse, hashlib, hmac, json, os, sys

SETTLED = {"approval.decided", "approval.expired", "approval.cancelled", "tool_call.settled"}


def entry_hash(e):
    # SHA-256 of all members, each with its length in bytes.
    members = ["aqueduct audit 2" if e["remote"] else "aqueduct audit 1", str(e["seq"]), e["tenant"], str(e["ts"]),
               e["actor"], e["action"], e["subject_type"], e["subject_id"], e["payload"], e["prev_hash"]]
    members += [e["remote"]] if e["remote"] else []
    raw = b"".join(str(len(m)).encode() + b":" + m + b"," for m in (m.encode() for m in members))
    return hashlib.sha256(raw).hexdigest()


def mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def check_mac(keys, given, text, what):
    if keys:
        name, _, value = given.partition(":")
        key = keys.get(name)
        if key is None or not hmac.compare_digest(value, mac(key, "aqueduct audit mac " + text)):
            raise ValueError(f"{what}: no MAC of a key that was given")


def lines(folder, name, files):
    with open(os.path.join(folder, name), "rb") as f:
        raw = f.read()
    if hashlib.sha256(raw).hexdigest() != files[name]["sha256"]:
        raise ValueError(f"{name} is not the file of the manifest")
    return [json.loads(line) for line in raw.splitlines()]


def verify(folder, keys, heads):
    with open(os.path.join(folder, "manifest.json"), "rb") as f:
        raw = f.read()
    manifest = json.loads(raw)
    if manifest["format"] != "aqueduct-audit-1":
        raise ValueError("the format is unknown")
    if keys:
        with open(os.path.join(folder, "manifest.mac"), encoding="ascii") as f:
            check_mac(keys, f.read().strip(), hashlib.sha256(raw).hexdigest(), "manifest.json")
    prev, keyed, hashes, decided = "", False, {}, {}
    for n, e in enumerate(lines(folder, "entries.jsonl", manifest["files"]), 1):
        if e["seq"] != n or e["prev_hash"] != prev or entry_hash(e) != e["hash"]:
            raise ValueError(f"broken at entry {n}")
        keyed = keyed or bool(e["mac"])
        if keyed:
            check_mac(keys, e["mac"], e["hash"], f"entry {n}")
        prev = hashes[n] = e["hash"]
        payload = json.loads(e["payload"]) if e["payload"] else {}
        if e["action"] in SETTLED:
            decided[e["subject_id"]] = (payload.get("status"), payload.get("args_sha256", ""))
        elif e["action"] == "approval.revoked":
            decided[e["subject_id"]] = ("CANCELLED", decided.get(e["subject_id"], ("", ""))[1])
    if keys and not keyed:
        raise ValueError("no entry has a MAC")
    known = [(h["seq"], h["hash"]) for h in manifest["known_heads"]] + heads
    for seq, value in known + [(manifest["head"]["seq"], manifest["head"]["hash"])]:
        if seq and not hashes.get(seq, "").startswith(value):
            raise ValueError(f"the head {seq}:{value} is not in the chain")
    for a in lines(folder, "approvals.jsonl", manifest["files"]):
        if decided.get(a["id"]) != (a["status"], a["args_sha256"]):
            raise ValueError(f"approval {a['id']} is {a['status']}, and the audit does not say so")
    if manifest["problems"]:
        raise ValueError("the export found: " + "; ".join(manifest["problems"]))
    return f"{len(hashes)} entries, unbroken; head {len(hashes)}:{prev}; MACs {'good' if keys else 'not checked'}"


def head(text):
    seq, _, value = text.partition(":")
    if len(value) < 12:
        raise argparse.ArgumentTypeError("a hash has at least 12 digits")
    return int(seq), value


if __name__ == "__main__":
    args = argparse.ArgumentParser(description="Verify an exported audit.")
    args.add_argument("folder")
    args.add_argument("--key", action="append", default=[])
    args.add_argument("--head", action="append", default=[], type=head)
    given, loaded = args.parse_args(), {}
    try:
        for path in given.key:
            with open(path, "rb") as file:
                secret = file.read().strip()
            loaded[mac(secret, "aqueduct audit key id")[:16]] = secret
        print(verify(given.folder, loaded, given.head))
    except (ValueError, KeyError, OSError, TypeError) as problem:
        sys.exit(f"NOT good: {problem}")
