"""The commands that the documents show."""

import dataclasses
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import typer

from dsi_ray.cli import app
from dsi_ray.cli.options import EngineOptions
from dsi_ray.serving.config import ServingConfig

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCUMENTS = [
    README,
    *(ROOT / folder / "README.md" for folder in ("deployments", "k8s", "loadtest")),
    ROOT / "deployments" / "OPERATIONS.md",
]
_INLINE = re.compile(r"`((?:dsi-ray|python -m|make|serve|ray) [^`]+)`")


@dataclass(frozen=True)
class Shown:
    """A command as a shell would read it.

    Attributes:
        words: Without variables in front.
        document: Where it stands.
    """

    words: tuple[str, ...]
    document: str

    def __str__(self) -> str:
        return f"{self.document}: {shlex.join(self.words)}"


def blocks(document: Path, language: str = "bash") -> list[str]:
    """The code blocks of a language."""
    fence = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return fence.findall(document.read_text())


def commands(text: str) -> list[list[str]]:
    """The commands of a shell script without control structures."""
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    found: list[list[str]] = []
    for line in lines:
        words = shlex.split(line, comments=True)
        while words and re.match(r"[A-Z_]+=", words[0]):
            words.pop(0)
        found += [part for part in _split(words) if part]
    return found


def _split(words: list[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        if word in ("&&", "|", "&"):
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def shown() -> list[Shown]:
    """All commands of all documents, each once."""
    found: dict[Shown, None] = {}
    for document in DOCUMENTS:
        text = document.read_text()
        scripts = [*blocks(document), *(_plain(code) for code in _INLINE.findall(text))]
        for script in scripts:
            for words in commands(script):
                found[Shown(tuple(words), str(document.relative_to(ROOT)))] = None
    return list(found)


def _plain(code: str) -> str:
    """Of `a \\| b`, which tables show, the first; and without the dots that stand for more."""
    return code.partition("\\|")[0].replace("...", "").strip()


def parse(application: typer.Typer, words: tuple[str, ...]) -> dict[str, Any]:
    """What a command would run with; options that do not exist and wrong values raise."""
    command: Any = typer.main.get_command(application)
    rest = list(words)
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    parameters: dict[str, Any] = command.make_context(command.name, rest).params
    return parameters


def engine_options(parameters: dict[str, Any]) -> EngineOptions | None:
    """Those that commands share; None if it is a command that has none."""
    names = {field.name for field in dataclasses.fields(EngineOptions)}
    if not names <= parameters.keys():
        return None
    # What is not given is None to the commands, though lists are empty to the parser.
    given: dict[str, Any] = {name: parameters[name] or None for name in names}
    return EngineOptions(**{**given, "config": given["config"] and Path(given["config"])})


def curls() -> Iterator[tuple[str, ServingConfig, dict[str, Any]]]:
    """The path and the body of each request of the README, and what serves it."""
    for block in blocks(README):
        config = ServingConfig()
        for words in commands(block):
            if words[:2] == ["dsi-ray", "serve"]:
                options = engine_options(parse(app, tuple(words[1:])))
                assert options is not None
                config = options.load(ServingConfig)
            if words[0] == "curl":
                yield httpx.URL(words[1]).path, config, json.loads(words[words.index("-d") + 1])
