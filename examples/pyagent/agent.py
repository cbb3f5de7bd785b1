#!/usr/bin/env python3
"""An agent in Python that uses what Aqueduct offers. Its prompts:

    transfer 10 to ada     calls the tool payments.transfer; the policy asks a person. The tool is yours to bring
                           (--tools-file, docs/tools.md); without one the agent answers that
    balance of ada         calls the tool payments.balance, and shows the call itself
    tidy a b               asks a person itself, one question after the other
    name                   asks for a name
    ask node hello         calls the agent "node" (examples/nodeagent) and passes on what it answers
    remember the milk      keeps the words in the context store, and the key in the thread's state
    recall                 reads them, in whatever run of the thread
    forget                 deletes them
    where                  asks the page, whose tool get_location it is; that of a browser asks the person
    think about tides      shows its reasoning apart from the answer, and counts tokens
    size                   how many bytes the message's files have, wherever they are
    history                reads the transcript
    models                 lists the models that it may call
    anything else          is repeated

Start it, then: aqueduct serve --agent py=http://127.0.0.1:8070
"""

import argparse
import asyncio
import json
import os
import sys
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sdk", "python"))

from aqueduct import Agent, AgentFailed, ContextMoved, ToolFailed, ask, frames  # noqa: E402


@Agent
def agent(run):
    """Picks what to do; each way is an async generator."""
    match run.prompt.split():
        case ["transfer", amount, "to", payee] if amount.isdecimal():
            return transfer(run, int(amount), payee)
        case ["balance", "of", holder]:
            return balance(run, holder)
        case ["tidy", *folders] if folders:
            return tidy(folders)
        case ["name"]:
            return name()
        case ["ask", other, *words] if words:
            return another(run, other, " ".join(words))
        case ["remember", *words] if words:
            return remember(run, " ".join(words))
        case ["recall", *_]:
            return recall(run)
        case ["forget"]:
            return forget(run)
        case ["where"]:
            return where(run)
        case ["think", "about", *words]:
            return think(run, " ".join(words))
        case ["size"]:
            return size(run)
        case ["history"]:
            return history(run)
        case ["models"]:
            return models(run)
        case _:
            return echo(run)


async def transfer(run, amount, payee):
    """A tool that Aqueduct runs. It looks like a call, and may take as long as people take."""
    yield f"I will transfer {amount} to {payee}. "
    yield frames.state("transferring", {"payee": payee})
    try:
        receipt = await run.tool.ainvoke("payments.transfer", {"amount": amount, "to": payee}, timeout=30)
    except ToolFailed as no:
        yield f"It was not done ({no.code})."
    else:
        yield f"Done, receipt {receipt['receipt']}."


async def balance(run, holder):
    """A call that the agent shows itself, where it makes it; under one id it is in the chat once, with Aqueduct's result."""
    args = {"of": holder}
    yield frames.tool_call("balance", "payments.balance", args)
    try:
        got = await run.tool.ainvoke("payments.balance", args, call_id="balance")
    except ToolFailed as no:
        yield f"It is not known ({no.code})."
    else:
        yield f"{holder} has {got['amount']}."


async def tidy(folders):
    """Something that the agent does itself, so it asks itself."""
    for folder in folders:
        yield f"I would like to delete {folder}. "
        answer = yield ask.permission(f"Delete the folder {folder}?", tool="delete_folder", args={"path": folder})
        yield f"{folder} is deleted. " if answer.approved else f"{folder} stays. "


async def name():
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    answer = yield ask.question("What is your name?", schema)
    yield "As you like." if answer.cancelled else f"Hello {answer.value['name']}."


async def another(run, other, words):
    """Another agent's work: what it asks is asked in this chat, what it costs is in this run's usage."""
    try:
        reply = await run.agents.ainvoke(other, words, context={"caller": "the Python example"})
    except AgentFailed as no:
        yield f"{other} did not answer ({no.code})."
    else:
        yield f"{other}: {reply.text}"


async def remember(run, words):
    """Notes of any size: the thread's events carry their key alone."""
    notes = (run.state or {}).get("notes")
    if notes is None:
        kept = await run.context.aput([words])
    else:
        before = await run.context.aget(notes)
        try:
            kept = await run.context.aput([*before.value, words], notes, if_version=before.version)
        except ContextMoved:
            yield "Another run has written notes at this moment. Please repeat it."
            return
    yield frames.state_snapshot({"notes": kept.key})
    yield f"I will remember that (version {kept.version})."


async def recall(run):
    notes = (run.state or {}).get("notes")
    if notes is None:
        yield "I remember nothing."
        return
    yield "I remember: " + ", ".join((await run.context.aget(notes)).value) + "."


async def forget(run):
    notes = (run.state or {}).get("notes")
    if notes is not None:
        kept = await run.context.aget(notes)
        await run.context.adelete(notes, kept.version)
        yield frames.state_delta([{"op": "remove", "path": "/notes"}])
    yield "I have forgotten everything."


async def where(run):
    """A tool of the page, which sends its tools along with the prompt and runs them itself."""
    if not any(tool.get("name") == "get_location" for tool in run.client_tools):
        yield "This page does not know where it is."
        return
    answer = yield ask.client_tool("get_location", {"precise": False})
    place = answer.value
    yield f"You are in {place['city']}." if isinstance(place, dict) and "city" in place else "You did not tell me."


async def size(run):
    """Files of a message: small ones come with it, large ones are read by the run's token."""
    content = run.input.get("content")
    files = [part for part in content if part.get("type") != "text"] if isinstance(content, list) else []
    yield "Bytes: " + ", ".join([str(len(await run.context.afile(part))) for part in files]) + "."


async def think(run, subject):
    yield frames.thought(f"What do I know about {subject}? ")
    yield frames.thought("Nothing.")
    run.used(input_tokens=3, output_tokens=2)
    yield f"I know nothing about {subject}."


async def history(run):
    page = await run.atranscript(limit=100, format="openai")
    yield "; ".join(f"{m['role']}: {m['content']}" for m in page.messages)


async def models(run):
    """Any client of OpenAI's API does: OpenAI(base_url=run.llm.base_url, api_key=run.llm.api_key)."""
    request = urllib.request.Request(run.llm.base_url + "/models", headers={"Authorization": "Bearer " + run.llm.api_key})

    def fetch():
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.load(response)

    yield ", ".join(model["id"] for model in (await asyncio.to_thread(fetch))["data"])


async def echo(run):
    words = ("You wrote: " + run.prompt).split(" ")
    run.used(input_tokens=len(words) - 2, output_tokens=len(words))
    for word in words:
        yield word + " "


if __name__ == "__main__":
    flags = argparse.ArgumentParser()
    flags.add_argument("--port", type=int, default=8070)
    agent.serve(port=flags.parse_args().port)
