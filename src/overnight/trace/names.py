"""Names of spans' attributes, pinned: OpenTelemetry's conventions for generative AI are still in development, and a
renamed constant in somebody's library must not make a record unreadable.

The `gen_ai.*` names are those of the conventions at schema 1.42.0; `overnight.*` holds what they lack.
"""

from typing import Final, Literal

Operation = Literal["chat", "embeddings", "invoke_agent", "execute_tool"]

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
CONVERSATION: Final = "gen_ai.conversation.id"
AGENT: Final = "gen_ai.agent.name"
TOOL: Final = "gen_ai.tool.name"
TOOL_CALL: Final = "gen_ai.tool.call.id"
PROMPT: Final = "gen_ai.prompt.name"
OUTPUT_TYPE: Final = "gen_ai.output.type"

REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_TOP_P: Final = "gen_ai.request.top_p"
REQUEST_TOP_K: Final = "gen_ai.request.top_k"
REQUEST_SEED: Final = "gen_ai.request.seed"
REQUEST_STOP: Final = "gen_ai.request.stop_sequences"
REQUEST_CHOICES: Final = "gen_ai.request.choice.count"
REQUEST_FREQUENCY_PENALTY: Final = "gen_ai.request.frequency_penalty"
REQUEST_PRESENCE_PENALTY: Final = "gen_ai.request.presence_penalty"

RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_FINISH: Final = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"

INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_CREATION_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"

ERROR_TYPE: Final = "error.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
HTTP_STATUS: Final = "http.response.status_code"

# The conventions put the messages themselves into attributes; here they are hashes of bodies, each kept once.
INPUT: Final = "overnight.input"
"""Hashes of the messages that are new since the call named by `INPUT_AFTER`."""
INPUT_AFTER: Final = "overnight.input.after"
"""Span of the call whose input, and answer, come before `INPUT`; absent for the first of a conversation."""
INPUT_KEPT: Final = "overnight.input.kept"
"""How many messages of that call's input are part of this one's."""
INSTRUCTIONS: Final = "overnight.input.instructions"
TOOLS: Final = "overnight.input.tools"
OUTPUT: Final = "overnight.output"

TENANT: Final = "overnight.tenant"
RUN: Final = "overnight.run"
KEY: Final = "overnight.key"
RELEASE: Final = "overnight.release"
TIER: Final = "overnight.tier"
API: Final = "overnight.api"
STREAM: Final = "overnight.stream"
COST_USD: Final = "overnight.cost_usd"
RESERVED_USD: Final = "overnight.reserved_usd"
TOOL_USES: Final = "overnight.usage.tools"
"""Uses of tools that the provider ran itself, as charged: `web_search: 2`."""
USAGE_ESTIMATED: Final = "overnight.usage.estimated"
OUTCOME: Final = "overnight.outcome"
REASON: Final = "overnight.reason"
"""Why this was done, or why it was not: the stated rationale, in words; untrusted where a model wrote it."""
RULE: Final = "overnight.rule"
"""The rule, limit or score that decided."""
CANDIDATES: Final = "overnight.candidates"
"""What could have been chosen, in order, and why each was or was not."""
ATTEMPT: Final = "overnight.attempt"
WAITED_S: Final = "overnight.waited_s"
CACHE: Final = "overnight.cache"
MASKED: Final = "overnight.masked"
"""How many places of the input were masked before it left."""
WARNING: Final = "overnight.warning"
