"""Random JSON schemas whose texts are short, whatever a model makes of them."""

import random
from typing import Any

NAMES = ("id", "name", "size", "tags", "kind")


def schema(dice: random.Random, depth: int = 2) -> dict[str, Any]:
    """A schema of the usual kinds; objects and arrays stay within ``depth`` of each other."""
    makers = [_enum, _integer, _boolean, _string, *([_array, _object] if depth else [])]
    return dice.choice(makers)(dice, depth)


def _enum(dice: random.Random, depth: int) -> dict[str, Any]:
    return {"enum": dice.sample(["red", "green", 3, -7.5, None, True, 'a "b"', "ü"], 3)}


def _integer(dice: random.Random, depth: int) -> dict[str, Any]:
    least = dice.randint(-1000, 1000)
    return {"type": "integer", "minimum": least, "maximum": least + dice.randint(0, 500)}


def _boolean(dice: random.Random, depth: int) -> dict[str, Any]:
    return {"type": "boolean"}


def _string(dice: random.Random, depth: int) -> dict[str, Any]:
    least = dice.randint(0, 3)
    return {"type": "string", "minLength": least, "maxLength": least + dice.randint(0, 4)}


def _array(dice: random.Random, depth: int) -> dict[str, Any]:
    least = dice.randint(0, 1)
    items = schema(dice, depth - 1)
    return {"type": "array", "items": items, "minItems": least, "maxItems": least + 1}


def _object(dice: random.Random, depth: int) -> dict[str, Any]:
    names = dice.sample(NAMES, dice.randint(1, 3))
    return {
        "type": "object",
        "properties": {name: schema(dice, depth - 1) for name in names},
        "required": names[: dice.randint(0, len(names))],
        "additionalProperties": False,
    }
