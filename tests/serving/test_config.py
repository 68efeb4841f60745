"""What is served, and under which name."""

from pathlib import Path

import pytest

from dsi_ray.config import ConfigError, load
from dsi_ray.serving.config import ServingConfig


def test_name_is_derived_from_the_target(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    for target, name in [
        ("demo", "demo"),
        (str(folder), "my-model"),
        ("org/model", "org/model"),
        ("simulated:tpot_ms=1", "simulated"),
    ]:
        assert load(ServingConfig, None, {"target": target}).model_name == name


def test_name_can_be_chosen() -> None:
    assert ServingConfig(served_model_name="mine").model_name == "mine"


def test_one_file_configures_engine_and_address(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("sp_degree: 2\nport: 9000\n")
    config = load(ServingConfig, file, {"host": "0.0.0.0"})
    assert (config.sp_degree, config.host, config.port) == (2, "0.0.0.0", 9000)


@pytest.mark.parametrize("line", ["port: 0", "port: 70000", "served_model_name: ''", "hots: x"])
def test_wrong_settings_are_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(line)
    with pytest.raises(ConfigError, match=line.split(":")[0]):
        load(ServingConfig, file, {})
