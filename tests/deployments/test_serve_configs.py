"""Every Serve config file can be deployed as it is, and asks for the devices that it names."""

import importlib
from pathlib import Path

import pytest

from dsi_ray.config import IMPORT_PATH, ConfigError, EngineConfig, load
from dsi_ray.runtime.coordinator.placement import bundles
from dsi_ray.serving.config import ServingConfig
from tests.deployments.serve_files import (
    APP_NAME,
    FILES,
    FOLDER,
    HOST_NAME,
    INGRESS_NAME,
    application,
    build_app,
    deployments,
    serve_config,
    serving_config,
)

every_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def gpus(name: str) -> list[float]:
    """GPUs of each bundle that has some."""
    wanted = bundles(serving_config((FOLDER / name).read_text()))
    return [bundle["GPU"] for bundle in wanted if "GPU" in bundle]


@every_file
def test_serve_and_this_package_accept_it(file: Path) -> None:
    assert serving_config(file.read_text()).served_model_name


@every_file
def test_the_command_takes_it_too(file: Path) -> None:
    text = file.read_text()
    http = serve_config(text).http_options
    address = {"host": http.host, "port": http.port}
    config = load(ServingConfig, file, {})
    assert config == serving_config(text).model_copy(update=address)
    assert load(EngineConfig, file, {"sp_degree": 5}).target == config.target


@pytest.mark.parametrize(
    "applications",
    ["", "[]", "5", "[{}]", "[{import_path: other:app, args: {target: demo}}]"],
)
def test_the_command_refuses_files_of_other_applications(tmp_path: Path, applications: str) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text(f"applications: {applications}\n")
    with pytest.raises(ConfigError, match=IMPORT_PATH):
        load(ServingConfig, file, {})


@every_file
def test_it_deploys_this_application_at_the_root(file: Path) -> None:
    app = application(file.read_text())
    assert app.import_path == IMPORT_PATH
    module, _, name = app.import_path.partition(":")
    assert getattr(importlib.import_module(module), name) is build_app
    assert (app.name, app.route_prefix) == (APP_NAME, "/")


@every_file
def test_it_overrides_only_deployments_that_exist(file: Path) -> None:
    assert deployments(file.read_text()).keys() <= {HOST_NAME, INGRESS_NAME}


@pytest.mark.parametrize(
    "file", [file for file in FILES if file.stem != "laptop"], ids=lambda file: file.stem
)
def test_answers_under_way_may_finish(file: Path) -> None:
    config = serving_config(file.read_text())
    assert config.shutdown_timeout_s >= config.request_timeout_s


@every_file
def test_it_says_when_to_use_it_and_what_to_change(file: Path) -> None:
    head = file.read_text().partition("\n\n")[0]
    assert all(line.startswith("#") for line in head.splitlines())
    assert "\n# Change: " in head
    assert f"`{file.name}`" in (FOLDER / "README.md").read_text()


def test_devices_are_those_of_the_name() -> None:
    assert gpus("laptop.yaml") == []
    assert gpus("two-gpus.yaml") == [1, 1]
    assert gpus("node-8gpu.yaml") == [1] * 8
    assert gpus("large-target.yaml") == [4, 1]


def test_the_laptop_is_not_reachable_from_outside() -> None:
    config = serve_config((FOLDER / "laptop.yaml").read_text())
    assert config.http_options.host == "127.0.0.1"
