"""Deterministic stand-ins for the world outside, for our tests and yours.

from overnight.testing import ScriptedModels, say

with ScriptedModels(say("hello")) as models:
    ...                       # point a provider at f"{models.url}/v1"
    models.requests[0].body   # what arrived
"""

from overnight.testing.gateway import RunningGateway
from overnight.testing.models import Received, ScriptedModels
from overnight.testing.script import Scripted, call_tool, fail, say

__all__ = ["Received", "RunningGateway", "Scripted", "ScriptedModels", "call_tool", "fail", "say"]
