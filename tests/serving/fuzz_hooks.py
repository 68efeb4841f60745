"""What schemathesis does to its cases: most should get past the model's name, and be short."""

from typing import Any

import schemathesis

SHORT = 3
VOCABULARY = 2048
"""Of the demo pair. The documentation cannot know it."""

LONG = ("max_tokens", "max_completion_tokens", "min_tokens")

IDS = ("stop_token_ids", "bad_token_ids", "allowed_token_ids", "prompt", "tokens")


@schemathesis.hook
def before_call(
    context: schemathesis.HookContext, case: schemathesis.Case, kwargs: dict[str, Any]
) -> None:
    """Names the model that is served, and asks for few tokens."""
    body = case.body
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        return
    body["model"] = "demo"
    for name in LONG:
        if isinstance(body.get(name), int) and body[name] > SHORT:
            body[name] = SHORT
    for name in IDS:
        if isinstance(body.get(name), list):
            body[name] = [i % VOCABULARY if isinstance(i, int) else i for i in body[name]]
    # A chat goes on to the end of the context where nothing is said.
    if "messages" in body and not any(body.get(name) for name in LONG):
        body["max_tokens"] = SHORT
