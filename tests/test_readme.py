"""Every command that a document shows works (a dry run where a real one takes minutes), its links
lead somewhere, and it names every setting."""

import importlib
import inspect
import re
import shlex
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from openai.resources.chat.completions import Completions as Chat
from openai.resources.completions import Completions
from typer.testing import CliRunner

import loadtest.cli
from dsi_ray.cli import app
from dsi_ray.config import ModelConfig, load
from dsi_ray.serving.config import ServingConfig
from dsi_ray.serving.schema.chat import ChatRequest
from dsi_ray.serving.schema.completions import CompletionRequest
from dsi_ray.serving.schema.fields import Only

from .readme import (
    CONFIGURATION,
    DOCUMENTS,
    README,
    ROOT,
    Shown,
    blocks,
    curls,
    engine_options,
    parse,
    sessions,
    shown,
)

SHOWN = shown()

CHECKED = {"curl", "dsi-ray", "make", "pip", "python", "ray", "serve"}
"""Programs that a test knows; of all others it only knows whether the files are there."""

OTHERS = set("aiperf cd cp docker export guidellm gzip kubectl kustomize jq locust vllm".split())

every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.parent.name))


def of(*programs: str) -> Any:
    found = [command for command in SHOWN if command.words[: len(programs)] == programs]
    assert found
    return pytest.mark.parametrize("command", found, ids=str)


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the configuration that the documents show, and what else commands name."""
    text = blocks(CONFIGURATION, "yaml")[0]
    (tmp_path / "deployment.yaml").write_text(text)
    (tmp_path / "two.yaml").write_text("num_ingress: 2\nsp_degree: 3\n")
    (tmp_path / "FILE").touch()
    for folder in ("A", "B", "FOLDER", "runs/si", "runs/dsi"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)


@of("dsi-ray")
def test_a_command_can_be_run_as_it_is_shown(command: Shown, deployment: None) -> None:
    options = engine_options(parse(app, command.words[1:]))
    if options is not None:
        options.load(ServingConfig)


def test_every_command_is_in_the_documents() -> None:
    listed = {command.words[1] for command in SHOWN if command.words[0] == "dsi-ray"}
    group: Any = typer.main.get_command(app)
    assert listed == set(group.commands)


def test_every_experiment_is_in_the_documents() -> None:
    listed = {command.words[2] for command in SHOWN if command.words[:2] == ("dsi-ray", "simulate")}
    group: Any = typer.main.get_command(app)
    assert listed == set(group.commands["simulate"].commands)


@of("python", "-m")
def test_a_module_can_be_run_as_it_is_shown(command: Shown, deployment: None) -> None:
    _, _, module, *arguments = command.words
    if module == "loadtest":
        parse(loadtest.cli.app, tuple(arguments))
        return
    program = typer.Typer()
    main = getattr(importlib.import_module(module), "main", None)
    if main is None:
        assert not arguments
        return
    program.command()(main)
    result = CliRunner().invoke(program, [*arguments, "--help"])
    assert result.exit_code == 0


@of("make")
def test_a_target_exists(command: Shown) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(command.words[1:]) <= set(targets)


@pytest.mark.parametrize(
    ("program", "module"), [("ray", "ray.scripts.scripts"), ("serve", "ray.serve.scripts")]
)
def test_rays_commands_and_options_exist(program: str, module: str) -> None:
    with warnings.catch_warnings():
        # Ray Serve declares its settings in a way that pydantic will drop one day.
        warnings.simplefilter("ignore")
        group = importlib.import_module(module).cli
    for command in (command for command in SHOWN if command.words[0] == program):
        parameters = group.commands[command.words[1]].params
        options = {option for parameter in parameters for option in parameter.opts}
        assert {word for word in command.words if word.startswith("-")} <= options, command


@of("pip", "install")
def test_extras_exist(command: Shown) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for names in re.findall(r"^\.\[(.*)\]$", command.words[-1]):
        assert set(names.split(",")) <= project["optional-dependencies"].keys()


@pytest.mark.parametrize("command", SHOWN, ids=str)
def test_files_that_are_named_exist(command: Shown) -> None:
    for word in command.words:
        path = word.partition("=")[2] or word
        if re.match(r"(deployments|k8s|loadtest)/", path):
            assert (ROOT / path).exists(), path


def test_no_program_is_shown_unchecked() -> None:
    assert {command.words[0] for command in SHOWN} <= CHECKED | OTHERS


def test_output_is_what_the_command_prints() -> None:
    for command, output in sessions():
        printed = CliRunner().invoke(app, shlex.split(command)[1:], env={"COLUMNS": "200"}).output
        lines = {" ".join(line.split()) for line in printed.splitlines()}
        assert {" ".join(line.split()) for line in output.splitlines()} <= lines


def test_the_readmes_requests_name_the_model_that_it_serves() -> None:
    requests = [(body, config) for _, config, body in curls(README) if body is not None]
    assert requests
    for body, config in requests:
        assert body["model"] == config.model_name


@pytest.mark.parametrize(
    "text",
    [text for document in (README, CONFIGURATION) for text in blocks(document, "yaml")],
    ids=lambda text: text.splitlines()[0],
)
def test_configurations_are_valid(text: str, tmp_path: Path) -> None:
    (tmp_path / "deployment.yaml").write_text(text)
    load(ServingConfig, tmp_path / "deployment.yaml", {})


def test_the_complete_configuration_has_every_setting_at_its_default() -> None:
    text = blocks(CONFIGURATION, "yaml")[0]
    shown = yaml.safe_load(text)
    assert {*shown, "address"} == set(ServingConfig.model_fields)
    defaults = ServingConfig().model_dump(mode="json")
    for key, value in shown.items():
        (line,) = (line for line in text.splitlines() if line.startswith(f"{key}:"))
        assert value == defaults[key] or "default" in line.lower(), key


def test_every_setting_of_a_model_is_explained() -> None:
    keys = (row.split("|")[1] for row in _rows("| key | default |"))
    listed = {name for cell in keys for name in re.findall(r"`(\w+)`", cell)}
    assert listed == set(ModelConfig.model_fields)


def test_every_extension_of_openais_api_is_listed() -> None:
    rows = _rows("| more than OpenAI |")
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    fields = CompletionRequest.model_fields | ChatRequest.model_fields
    supported = {
        name
        for name, field in fields.items()
        if not any(isinstance(mark, Only) for mark in field.metadata)
    }
    of_openai = {
        name for create in (Completions.create, Chat.create) for name in _parameters(create)
    }
    assert listed == supported - of_openai


def _rows(heading: str) -> list[str]:
    """Of the table of the configuration that begins so."""
    table = CONFIGURATION.read_text().partition(heading)[2].partition("\n\n")[0]
    return table.splitlines()[2:]


def _parameters(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters)


@every_document
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text()):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        assert file.exists(), target
        if anchor:
            assert anchor in _anchors(file), target


def _anchors(document: Path) -> set[str]:
    """As GitHub makes them of headings."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@every_document
def test_lines_can_be_read(document: Path) -> None:
    assert [line for line in document.read_text().splitlines() if len(line) > 400] == []


def test_the_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= 180
