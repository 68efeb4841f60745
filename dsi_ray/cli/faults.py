"""``dsi-ray simulate`` of what goes wrong: dead servers and nodes, and slow networks, on Ray."""

from typing import Annotated

import typer

from dsi_ray.cli.terminal.figures import Columns, Out, Seed, check_outputs, report, with_progress
from dsi_ray.cli.terminal.json_file import JsonFile

_CHAOS_COLUMNS: Columns = {
    "server": ("server", "s"),
    "requests": ("requests", "d"),
    "times": ("disturbances", "d"),
    "restarts": ("restarts", "d"),
    "failed": ("failed", "d"),
    "differing\ntexts": ("differing", "d"),
    "s": ("seconds", ".1f"),
}
_NODES_COLUMNS: Columns = {
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
_LOST_COLUMNS: Columns = {
    "drafter": ("drafter", "s"),
    "non-SI\ntokens/s": ("non_si_tokens_per_second", ".1f"),
    "DSI\ntokens/s": ("dsi_tokens_per_second", ".1f"),
    "DSI/\nnon-SI": ("ratio", ".3f"),
    "identical": ("identical_tokens", ""),
}


def chaos(
    target: Annotated[str, typer.Option(help="Model of the target servers.")] = (
        "simulated:tpot_ms=20"
    ),
    drafter: Annotated[str, typer.Option(help="Model of the drafter.")] = (
        "simulated:tpot_ms=4,acceptance_rate=0.8"
    ),
    sp_degree: Annotated[int, typer.Option(help="Number of target servers.", min=1)] = 3,
    requests: Annotated[int, typer.Option(help="Requests of each run.", min=1)] = 200,
    tokens: Annotated[int, typer.Option(help="Tokens of each request.", min=1)] = 100,
    concurrency: Annotated[int, typer.Option(help="Requests at once.", min=1)] = 8,
    every_s: Annotated[float, typer.Option(help="Seconds between two faults.", min=0.1)] = 3.0,
    hang_s: Annotated[float, typer.Option(help="Seconds for which a server hangs.", min=0.1)] = 5.0,
    seed: Annotated[int, typer.Option(help="Seed of the choice of servers.")] = 0,
    json_file: JsonFile = None,
) -> None:
    """Kill and stop random servers and nodes under load, on Ray.

    Four runs: undisturbed, with servers killed, with servers stopped for a while, and with a node
    killed. The table counts requests that failed and texts that changed; both must be 0.
    """
    from dsi_ray.config import EngineConfig
    from dsi_ray.experiments.chaos import study

    config = EngineConfig.model_validate(
        {
            "target": target,
            "drafters": [drafter],
            "sp_degree": sp_degree,
            "placement_strategy": "SPREAD",
        }
    )
    check_outputs(None, json_file)
    rows = with_progress(
        "Decoding",
        4 * requests,
        lambda step: study(config, requests, tokens, concurrency, every_s, hang_s, seed, step),
    )
    report("What happens to a random server", rows, _CHAOS_COLUMNS, json_file)


def lost_drafter(
    prompts: Annotated[int, typer.Option(help="Texts for each row of the table.", min=1)] = 8,
    tokens: Annotated[int, typer.Option(help="Tokens of each text.", min=1)] = 200,
    json_file: JsonFile = None,
) -> None:
    """Kill the demo pair's drafter for good, and compare DSI with non-SI, before and after.

    Without a drafter DSI must be no slower than plain decoding.
    """
    from dsi_ray.experiments import lost_drafter as experiment

    check_outputs(None, json_file)
    rows = with_progress(
        "Decoding",
        experiment.steps(prompts),
        lambda step: experiment.study(prompts, tokens, step),
    )
    report("DSI against non-SI", rows, _LOST_COLUMNS, json_file)


def nodes(
    added_ms: Annotated[
        list[float],
        typer.Option(
            help="Milliseconds that the network adds to a packet, either way; may be repeated.",
            min=0,
        ),
    ] = [0.0, 2.0, 10.0],  # noqa: B006
    traces: Annotated[int, typer.Option(help="Texts for each row of the table.", min=1)] = 10,
    tokens: Annotated[int, typer.Option(help="Tokens of a text.", min=1)] = 50,
    out: Out = None,
    seed: Seed = 0,
    json_file: JsonFile = None,
) -> None:
    """Compare DSI with non-SI on two Ray nodes with a slow network between them.

    Needs root, for network namespaces.
    """
    from dsi_ray.experiments import nodes as experiment

    check_outputs(out, json_file)
    rows = with_progress(
        "Decoding",
        len(added_ms) * len(experiment.DRAFTERS) * experiment.ROWS,
        lambda step: experiment.study(added_ms, traces, tokens, seed, step),
    )
    title = "DSI on two nodes, by what the network adds to a packet"
    report(title, rows, _NODES_COLUMNS, json_file, out, "nodes")
