"""What schemathesis does to its cases: most should get past the model's name, and be short."""

from typing import Any

import schemathesis

SHORT = 3
LONG = ("max_tokens", "max_completion_tokens", "min_tokens")


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
    # A chat goes on to the end of the context where nothing is said.
    if "messages" in body and not any(body.get(name) for name in LONG):
        body["max_tokens"] = SHORT
