"""Flags and file make one configuration."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

import dsi_ray
from dsi_ray.cli import app
from dsi_ray.cli.terminal.options import EngineOptions
from dsi_ray.config import Algorithm, EngineConfig, Verification
from dsi_ray.serving.config import ServingConfig


def test_nothing_given_is_the_default() -> None:
    assert EngineOptions().load(EngineConfig) == EngineConfig()


def test_flags_override_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("sp_degree: 2\nlookahead: 3\nalgorithm: si\nverification: rejection\n")
    options = EngineOptions(config=file, lookahead="5", algorithm="dsi")
    config = options.load(EngineConfig)
    assert (config.sp_degree, config.lookahead, config.algorithm) == (2, 5, Algorithm.DSI)
    assert config.verification is Verification.REJECTION
    exact = EngineOptions(config=file, verification="exact").load(EngineConfig)
    assert exact.verification is Verification.EXACT


def test_drafters_keep_their_order() -> None:
    options = EngineOptions(target="org/big", drafter=["org/small", "lookup"], lookahead="auto")
    config = options.load(EngineConfig)
    assert [drafter.model for drafter in config.drafters] == ["org/small", "lookup"]
    assert config.lookahead == "auto"


def test_dtype_and_device_are_for_models_with_weights() -> None:
    drafters = ["org/small", "lookup", "simulated:tpot_ms=1"]
    options = EngineOptions(target="org/big", drafter=drafters, dtype="float64", device="cpu")
    config = options.load(EngineConfig)
    placed = [(model.dtype, model.device) for model in (config.target, *config.drafters)]
    assert placed == [("float64", "cpu"), ("float64", "cpu"), ("auto", "auto"), ("auto", "auto")]


def test_own_options_of_a_command() -> None:
    assert EngineOptions().load(ServingConfig, port=9000, host=None).port == 9000


def test_package_exports_its_api() -> None:
    from dsi_ray.params import SamplingParams
    from dsi_ray.runtime.client.engine import Engine

    assert dsi_ray.Engine is Engine
    assert dsi_ray.EngineConfig is EngineConfig
    assert dsi_ray.SamplingParams is SamplingParams
    assert not hasattr(dsi_ray, "Motor")


def test_no_part_of_a_help_text_is_taken_for_markup() -> None:
    """Defaults in square brackets had vanished from every ``--help``."""

    def parameters(command: Any) -> Iterator[Any]:
        yield from command.params
        for child in getattr(command, "commands", {}).values():
            yield from parameters(child)

    texts = [p.help for p in parameters(typer.main.get_command(app)) if getattr(p, "help", None)]
    assert len(texts) > 100
    for text in texts:
        assert Text.from_markup(text).plain == text
