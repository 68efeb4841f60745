"""``dsi-ray doctor``."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from dsi_ray.cli.terminal.errors import FAILURE
from dsi_ray.cli.terminal.json_file import STDOUT, JsonFile, check_writable, write_json
from dsi_ray.cli.terminal.options import EngineOptions, Host, Port, with_engine_options
from dsi_ray.serving.config import ServingConfig

if TYPE_CHECKING:
    from dsi_ray.runtime.doctor.finding import Finding

_MARKS = {"ok": "[green]ok[/]     ", "warning": "[yellow]warning[/]", "failed": "[red]failed[/] "}


@with_engine_options
def command(
    engine: EngineOptions,
    host: Host = None,
    port: Port = None,
    json_file: JsonFile = None,
) -> None:
    """Check whether this machine and its cluster can serve a configuration.

    Checks Python and packages, the port, disk and shared memory, the models' files and
    vocabularies, Ray, the GPUs, and whether the servers have room. No weights are loaded. Each
    failure comes with what to do about it, and the exit status is 1 if there is any.

    \b
    dsi-ray doctor
    dsi-ray doctor --config deployment.yaml
    dsi-ray doctor --target /models/llama-70b --sp-degree 3 --address auto
    """
    config = engine.load(ServingConfig, host=host, port=port)
    check_writable(json_file)
    console = Console(quiet=json_file == STDOUT, soft_wrap=True)
    found = []
    for one in _examine(config):
        found.append(one)
        console.print(f"{_MARKS[one.state]}  {one.check}: {one.detail}", highlight=False)
        if one.action:
            console.print(f"         → {one.action}", highlight=False)
    write_json([one._asdict() for one in found], json_file)
    if any(one.state == "failed" for one in found):
        raise typer.Exit(FAILURE)


def _examine(config: ServingConfig) -> "Iterator[Finding]":
    """All checks, the quick ones first."""
    from dsi_ray.runtime.doctor import machine

    yield machine.check_python()
    yield from machine.check_packages()
    yield machine.check_port(config.host, config.port)
    yield machine.check_disk()
    yield machine.check_shared_memory()
    yield machine.check_open_files()
    from dsi_ray.runtime.doctor.cluster import check_cluster
    from dsi_ray.runtime.doctor.models import check_models

    yield from check_models(config)
    yield from check_cluster(config)
