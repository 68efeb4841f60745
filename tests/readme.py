"""The documents, and the commands that they show."""

import dataclasses
import json
import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import typer

from dsi_ray.cli import app
from dsi_ray.cli.terminal.options import EngineOptions
from dsi_ray.serving.config import ServingConfig

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
CONFIGURATION = ROOT / "deployments" / "CONFIGURATION.md"
DOCUMENTS = [
    README,
    *sorted(
        document
        for folder in ("deployments", "k8s", "loadtest", "dsi_ray")
        for document in (ROOT / folder).rglob("*.md")
    ),
]
_INLINE = re.compile(r"`((?:\.venv/bin/)?(?:dsi-ray|python -m|make|serve|ray) [^`]+)`")
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


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
    """The code blocks of a language; those in lists without their indentation."""
    found = _FENCE.findall(document.read_text())
    return [textwrap.dedent(text) for _, name, text in found if name == language]


def sessions() -> Iterator[tuple[str, str]]:
    """Every ``$ command`` that a document shows with its output, and that output."""
    for document in DOCUMENTS:
        for text in blocks(document, ""):
            if text.startswith("$ "):
                command, _, output = text.removeprefix("$ ").partition("\n")
                yield command, output


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
        inline = (_alternatives(code) for code in _INLINE.findall(document.read_text()))
        scripts = [*blocks(document), *(command for each in inline for command in each)]
        for script in scripts:
            for words in commands(script):
                found[Shown(tuple(words), str(document.relative_to(ROOT)))] = None
    for script in (*_examples(typer.main.get_command(app)), *(text for text, _ in sessions())):
        for words in commands(script):
            found[Shown(tuple(words), "help")] = None
    return list(found)


def _examples(command: Any) -> Iterator[str]:
    """The examples that the help of a command and of those below it ends with."""
    lines = (command.help or "").splitlines()
    yield from (line for line in lines if line.startswith("dsi-ray "))
    for child in getattr(command, "commands", {}).values():
        yield from _examples(child)


def _alternatives(code: str) -> list[str]:
    """Every command that ``program a \\| b`` stands for in a table."""
    first, *others = code.removeprefix(".venv/bin/").split("\\|")
    before = first.split()[:-1]
    return [first, *(" ".join([*before, other]) for other in others)]


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


def curls(document: Path) -> Iterator[tuple[str, ServingConfig, dict[str, Any] | None]]:
    """The path and the body of each request of a document, and what serves it there."""
    for block in blocks(document):
        options: EngineOptions | None = None
        for words in commands(block):
            if words[:2] == ["dsi-ray", "serve"]:
                options = engine_options(parse(app, tuple(words[1:])))
            if words[0] == "curl":
                (url,) = (word for word in words if word.startswith("http"))
                body = json.loads(words[words.index("-d") + 1]) if "-d" in words else None
                config = (options or EngineOptions()).load(ServingConfig)
                yield httpx.URL(url).path, config, body
