"""Says something by the SDK's client and prints what comes, one JSON object a line."""

import asyncio
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sdk", "python"))

from aqueduct import Client  # noqa: E402
from aqueduct.events import Approval  # noqa: E402


async def main(url, thread, prompt, mode):
    client = Client(url)
    async for chunk in client.chat(prompt, thread, enable_tools=mode != "words"):
        kind = "text" if isinstance(chunk, str) else type(chunk).__name__
        print(json.dumps({"kind": kind, "text": chunk if kind == "text" else getattr(chunk, "tool", "")}), flush=True)
        if isinstance(chunk, Approval) and mode == "approve":
            await client.approve(chunk.id)


asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 60))
