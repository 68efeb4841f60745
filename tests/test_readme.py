"""Every command that a document shows works; a dry run where a real one takes minutes."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import loadtest.cli
from dsi_ray.cli import app
from dsi_ray.config import load
from dsi_ray.serving.config import ServingConfig

from .readme import README, ROOT, Shown, blocks, curls, engine_options, parse, shown

SHOWN = shown()


def of(*programs: str) -> Any:
    found = [command for command in SHOWN if command.words[: len(programs)] == programs]
    assert found
    return pytest.mark.parametrize("command", found, ids=str)


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the configuration that the README shows, and what else commands name."""
    text = blocks(README, "yaml")[0]
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


def test_every_command_is_in_the_readme() -> None:
    listed = {command.words[1] for command in SHOWN if command.words[0] == "dsi-ray"}
    group: Any = typer.main.get_command(app)
    assert listed == set(group.commands)


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


@pytest.mark.parametrize("command", SHOWN, ids=str)
def test_files_that_are_named_exist(command: Shown) -> None:
    for word in command.words:
        path = word.partition("=")[2] or word
        if re.match(r"(deployments|k8s|loadtest)/", path):
            assert (ROOT / path).exists(), path


def test_the_readmes_requests_name_the_model_that_it_serves() -> None:
    assert [body["model"] for _, _, body in curls()] == [
        config.model_name for _, config, _ in curls()
    ]
    assert list(curls())


@pytest.mark.parametrize("text", blocks(README, "yaml"), ids=lambda text: text.splitlines()[0])
def test_the_readmes_configurations_are_some(text: str, tmp_path: Path) -> None:
    (tmp_path / "deployment.yaml").write_text(text)
    load(ServingConfig, tmp_path / "deployment.yaml", {})
