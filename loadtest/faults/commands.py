"""The commands ``chaos``, ``lost-drafter`` and ``nodes``."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Annotated

import httpx
import typer

from loadtest.console import print_chaos, print_rows
from loadtest.errors import LoadTestError
from loadtest.faults import chaos
from loadtest.faults.http_service import (
    HttpService,
    check_local,
    check_names_processes,
    openai_client,
)
from loadtest.options import READY_S, ApiKey, DsiRay, http_client, progress_bar
from loadtest.server import wait_until_ready

_NODE_EVERY_S = 30.0
"""Ray takes 15 s to miss a node. If another dies meanwhile, Ray 2.60 fails to move the first one's
bundles there, and then ends all actors of the placement group, the coordinator too."""

_NODES_COLUMNS = {
    "added\nms": ("delay_ms", "g"),
    "mess.\nms": ("message_ms", ".1f"),
    "draft\nms": ("drafter_ms", "g"),
    "accep-\ntance": ("acceptance", ".0%"),
    "servers": ("layout", "s"),
    "SP": ("sp_degree", "d"),
    "non-SI\ntok/s": ("non_si_tokens_per_second", ".1f"),
    "DSI\ntok/s": ("dsi_tokens_per_second", ".1f"),
    "DSI/\nnon-SI": ("dsi_over_non_si", ".3f"),
    "msgs/\ntok": ("messages_per_token", ".1f"),
    "bytes/\ntok": ("bytes_per_token", ".0f"),
}
_LOST_COLUMNS = {
    "drafter": ("drafter", "s"),
    "non-SI\ntokens/s": ("non_si_tokens_per_second", ".1f"),
    "DSI\ntokens/s": ("dsi_tokens_per_second", ".1f"),
    "DSI/\nnon-SI": ("ratio", ".3f"),
    "identical": ("identical_tokens", ""),
}

Seed = Annotated[int, typer.Option(help="Seed of the random choices.")]


def chaos_command(
    url: DsiRay = "http://127.0.0.1:8000",
    api_key: ApiKey = None,
    in_process: Annotated[
        bool,
        typer.Option("--in-process", help="Take an engine on three Ray nodes, not a server."),
    ] = False,
    kill: Annotated[
        list[str], typer.Option(help=f"What: {', '.join(chaos.ROLES)}; may be repeated.")
    ] = ["drafter", "target", "ingress"],  # noqa: B006
    stop_s: Annotated[
        float | None, typer.Option(help="Stop it for so many seconds instead.", min=0.1)
    ] = None,
    requests: Annotated[int, typer.Option(help="Requests of each run.", min=1)] = 200,
    tokens: Annotated[int, typer.Option(help="Tokens of each request.", min=1)] = 100,
    concurrency: Annotated[int, typer.Option(help="Requests at once.", min=1)] = 8,
    every_s: Annotated[
        float | None,
        typer.Option(
            help="Seconds between two kills. Default: 3, for nodes 30.", min=0.1, show_default=False
        ),
    ] = None,
    retries: Annotated[
        int, typer.Option(help="Times that the client sends a failed request again.", min=0)
    ] = 5,
    seed: Seed = 0,
) -> None:
    """Kill or stop processes and nodes under load: no request may fail, and no text may change.

    The same requests are sent twice, first undisturbed.
    """
    unknown = sorted(set(kill) - set(chaos.ROLES))
    if unknown:
        raise LoadTestError(f"--kill {unknown[0]}: choose among {', '.join(chaos.ROLES)}")
    if "node" in kill and not in_process:
        raise LoadTestError("--kill node: only with --in-process are there several nodes here")
    every_s = every_s or (_NODE_EVERY_S if "node" in kill else 3.0)
    load = chaos.Load(requests, tokens, concurrency)
    faults = chaos.Faults(kill, every_s, stop_s, seed)
    if in_process:
        print_chaos(_in_process(load, faults, retries))
    else:
        http = http_client(url, api_key)
        print_chaos(asyncio.run(_over_http(http, api_key, load, faults, retries)))


def _in_process(load: chaos.Load, faults: chaos.Faults, retries: int) -> list[chaos.Outcome]:
    with _dsi_ray_errors():
        from loadtest.faults.in_process import engine_service

        with engine_service(retries) as service:
            return asyncio.run(_disturb(service, load, faults))


async def _over_http(
    http: httpx.AsyncClient,
    api_key: str | None,
    load: chaos.Load,
    faults: chaos.Faults,
    retries: int,
) -> list[chaos.Outcome]:
    check_local(http)
    client = openai_client(http, api_key, retries)
    async with http, client:
        model = await wait_until_ready(http, READY_S)
        await check_names_processes(http)
        return await _disturb(HttpService(http, client, model), load, faults)


async def _disturb(
    service: chaos.Service, load: chaos.Load, faults: chaos.Faults
) -> list[chaos.Outcome]:
    outcomes = []
    with progress_bar() as bar:
        task = bar.add_task("", total=load.requests, failed=0)
        for name, what in (("undisturbed", None), ("disturbed", faults)):
            bar.reset(task, description=name)
            outcomes.append(await chaos.run(service, load, what, lambda: bar.advance(task)))
        await chaos.recovered(service)
    return outcomes


def lost_drafter_command(
    prompts: Annotated[int, typer.Option(help="Texts for each row of the table.", min=1)] = 8,
    tokens: Annotated[int, typer.Option(help="Tokens of each text.", min=1)] = 200,
) -> None:
    """Kill the demo pair's drafter for good, and compare DSI with non-SI, before and after.

    Without a drafter DSI must be no slower than plain decoding.
    """
    with _dsi_ray_errors(), progress_bar() as bar:
        from loadtest.faults import lost_drafter

        task = bar.add_task("Decoding", total=lost_drafter.steps(prompts), failed=0)
        rows = lost_drafter.study(prompts, tokens, lambda: bar.advance(task))
    print_rows("DSI against non-SI", rows, _LOST_COLUMNS)


def nodes_command(
    added_ms: Annotated[
        list[float],
        typer.Option(
            help="Milliseconds that the network adds to a packet, either way; may be repeated.",
            min=0,
        ),
    ] = [0.0, 2.0, 10.0],  # noqa: B006
    traces: Annotated[int, typer.Option(help="Texts for each row of the table.", min=1)] = 10,
    tokens: Annotated[int, typer.Option(help="Tokens of a text.", min=1)] = 50,
    seed: Seed = 0,
) -> None:
    """Compare DSI with non-SI on two Ray nodes with a slow network between them.

    Needs root, for network namespaces.
    """
    with _dsi_ray_errors(), progress_bar() as bar:
        from loadtest.faults import nodes

        total = len(added_ms) * len(nodes.DRAFTERS) * nodes.ROWS
        task = bar.add_task("Decoding", total=total, failed=0)
        rows = nodes.study(added_ms, traces, tokens, seed, lambda: bar.advance(task))
    print_rows("DSI on two nodes, by what the network adds to a packet", rows, _NODES_COLUMNS)


@contextlib.contextmanager
def _dsi_ray_errors() -> Iterator[None]:
    """What dsi-ray itself says of a wrong machine or a lost engine."""
    from dsi_ray.config import ConfigError
    from dsi_ray.runtime.errors import EngineError

    try:
        yield
    except (ConfigError, EngineError) as error:
        raise LoadTestError(str(error)) from error
