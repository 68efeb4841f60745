"""An OpenAI-style event stream, whoever receives it."""

import json
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from loadtest.record import Drafts

_TEXTS = ("content", "reasoning", "reasoning_content", "tool_calls")


@dataclass(slots=True)
class Stream:
    """What the lines of a stream have told so far.

    Attributes:
        chunks_s: When each piece of text or of token ids came.
        end_s: When the last such piece, or the reason why the text ended, came.
        prompt_tokens: As the server counts them.
        completion_tokens: Likewise.
        finish_reason: Why the text ended.
        drafts: How the drafts fared.
        failure: Kind and detail of what went wrong, once something did.
        done: Whether the stream came to its proper end.
    """

    chunks_s: list[float] = field(default_factory=list)
    end_s: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    finish_reason: str | None = None
    drafts: Drafts | None = None
    failure: tuple[str, str] | None = None
    done: bool = False

    def feed(self, line: str, now: float) -> None:
        """Takes a line that came at ``now``; what is no data is ignored."""
        name, _, data = line.partition(":")
        if name != "data":
            return
        if data.strip() == "[DONE]":
            self.done = True
            return
        try:
            event = json.loads(data)
            self._take(event, now)
        except (ValueError, AttributeError, TypeError, KeyError) as error:
            self.failure = ("broken_stream", f"{error}: {data.strip()}")

    def close(self) -> None:
        """Takes the end of the lines: without ``[DONE]`` it is a failure."""
        if not self.done and self.failure is None:
            self.failure = ("broken_stream", "the stream ended without [DONE]")

    def _take(self, event: dict[str, Any], now: float) -> None:
        if error := event.get("error"):
            self.failure = ("error_event", json.dumps(error))
        for choice in event.get("choices") or ():
            self._take_choice(choice, now)
        if usage := event.get("usage"):
            self.prompt_tokens = usage["prompt_tokens"]
            self.completion_tokens = usage["completion_tokens"]
        if drafts := (event.get("metrics") or {}).get("speculative_decoding"):
            self.drafts = _drafts(drafts)

    def _take_choice(self, choice: dict[str, Any], now: float) -> None:
        delta = choice.get("delta") or {}
        if choice.get("text") or choice.get("token_ids") or any(map(delta.get, _TEXTS)):
            self.chunks_s.append(now)
            self.end_s = now
        if reason := choice.get("finish_reason"):
            self.finish_reason = reason
            self.end_s = now


def _drafts(report: dict[str, Any]) -> Drafts | None:
    """None where a server tells less."""
    try:
        return Drafts.model_validate(report)
    except ValidationError:
        return None
