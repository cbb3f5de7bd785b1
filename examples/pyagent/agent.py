#!/usr/bin/env python3
"""An agent in Python whose tools need approval. Its prompts:

    transfer 10 to ada     calls the tool payments.transfer; the policy asks a person. The tool is yours to bring
                           (--tools-file, docs/tools.md); without one the agent says so
    balance of ada         calls the tool payments.balance, and shows the call itself
    delete build           asks a person itself, before it does something of its own
    tidy a b               asks one question after the other
    remember the milk      keeps the words in the context store, and the key in the thread's state
    recall                 reads them, in whatever run of the thread
    size                   how many bytes the message's files have, wherever they are
    ask NAME words         has another agent answer, by its id, and passes on what it answers
    history                counts the messages of the thread
    anything else          is said back

Start it, then: aqueduct serve --agent py=http://127.0.0.1:8070
"""

import argparse
import os
import sys

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
        case ["delete", *folders] if folders:
            return delete(folders[:1])
        case ["tidy", *folders] if folders:
            return delete(folders)
        case ["remember", *words] if words:
            return remember(run, " ".join(words))
        case ["recall"]:
            return recall(run)
        case ["size"]:
            return size(run)
        case ["ask", name, *words] if words:
            return ask_agent(run, name, " ".join(words))
        case ["history"]:
            return history(run)
        case _:
            return echo(run)


async def transfer(run, amount, payee):
    """A tool that Aqueduct runs. It looks like a call, and may take as long as people take."""
    yield f"I will transfer {amount} to {payee}. "
    yield frames.state("transferring", {"payee": payee})
    try:
        receipt = await run.tool.ainvoke("payments.transfer", {"amount": amount, "to": payee}, timeout=30)
    except ToolFailed as no:
        yield f"It was not done: {no.message}"
    else:
        yield f"Done, receipt {receipt['receipt']}."


async def balance(run, holder):
    """A call that the agent shows itself, where it makes it; under one id it is in the chat once, with Aqueduct's result."""
    args = {"of": holder}
    yield frames.tool_call("balance", "payments.balance", args)
    try:
        got = await run.tool.ainvoke("payments.balance", args, call_id="balance")
    except ToolFailed as no:
        yield f"It is not known: {no.message}"
    else:
        yield f"{holder} has {got['amount']}."


async def delete(folders):
    """Something the agent does itself, so it asks itself."""
    for folder in folders:
        yield f"I would like to delete {folder}. "
        answer = yield ask.permission(f"Delete the folder {folder}?", tool="delete_folder", args={"path": folder})
        yield f"{folder} is deleted. " if answer.approved else f"{folder} stays. "


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
            yield "Another run has written notes at this moment. Please say it again."
            return
    yield frames.state_snapshot({"notes": kept.key})
    yield f"I will remember that (version {kept.version})."


async def recall(run):
    notes = (run.state or {}).get("notes")
    if notes is None:
        yield "I remember nothing."
        return
    yield "I remember: " + ", ".join((await run.context.aget(notes)).value) + "."


async def size(run):
    """Files of a message: small ones come with it, large ones are read by the run's token."""
    content = run.input.get("content")
    files = [part for part in content if part.get("type") != "text"] if isinstance(content, list) else []
    yield "Bytes: " + ", ".join([str(len(await run.context.afile(part))) for part in files]) + "."


async def ask_agent(run, name, words):
    """Another agent's work: what it asks is asked in this chat, what it costs is in this run's usage."""
    try:
        reply = await run.agents.ainvoke(name, words)
    except AgentFailed as no:
        yield f"{name} did not answer: {no.message}"
    else:
        yield f"{name} answers: {reply.text}"


async def history(run):
    page = await run.atranscript(limit=200)
    yield f"{len(page.messages)} messages, the first is {page.messages[0]['content']!r}."


async def echo(run):
    words = ("You wrote: " + run.prompt).split(" ")
    run.used(input_tokens=len(words) - 2, output_tokens=len(words))
    for word in words:
        yield word + " "


if __name__ == "__main__":
    flags = argparse.ArgumentParser()
    flags.add_argument("--port", type=int, default=8070)
    agent.serve(port=flags.parse_args().port)
