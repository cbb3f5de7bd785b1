"""Aqueduct for Python: write agents, and talk to them. Standard library only."""

from . import ask, frames
from .agent import Agent
from .ask import Answer
from .client import Client
from .contexts import Contexts
from .errors import AgentError, AgentFailed, AqueductError, ChatError, ContextFailed, ContextMoved, Gone, ToolFailed, ToolPending
from .run import Run
from .signature import BadSignature, verify

__all__ = [
    "Agent", "AgentError", "AgentFailed", "Answer", "AqueductError", "BadSignature", "ChatError", "Client", "ContextFailed", "ContextMoved", "Contexts", "Gone", "Run", "ToolFailed", "ToolPending", "ask", "frames", "verify",
]
