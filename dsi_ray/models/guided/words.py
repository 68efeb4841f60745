"""The guide library's errors in words for clients, who know their guide and not its grammar."""

import re

DEAD_END = "NoExtensionBias"
"""How the library says that no token of the vocabulary can follow."""

_PLACE = re.compile(r"^(at \d+\(\d+\): |failed to compile JSON schema: )+")

_LIMITS = {
    "too many expressions": "its repetitions, nested in each other, are too many",
    "items; max is": "there are too many ways to go on at once, such as hundreds of optional "
    "properties: make most of them required, or leave some out",
}


def refusal(error: str) -> str:
    """Why the library does not take a guide: what it says about the guide itself, in one line."""
    lines = error.strip().splitlines()
    # A regex is quoted, then comes what is wrong with it, then the library's own grammar.
    told = next((line for line in lines if line.startswith("error: ")), lines[0])
    return _PLACE.sub("", told.removeprefix("error: "))[:300]


def limit(error: str) -> str:
    """Why a guide that was taken cannot be followed any further."""
    if error.startswith(DEAD_END):
        return "no text of these tokens has this form"
    known = (words for sign, words in _LIMITS.items() if sign in error)
    return next(known, "it is more than can be followed: simplify it")
