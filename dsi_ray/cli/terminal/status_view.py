"""A server's state on a terminal."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

_STYLES = {"ok": "green", "failed": "bold red", "down": "bold red"}
_MIB = 2**20


def print_status(url: str, figures: dict[str, Any]) -> None:
    """Prints a line or two for each thing to know, and a table of the servers of each group."""
    console = Console()
    state = figures["status"]
    console.print(f"[bold]{figures['model']}[/] at {url}: {_styled(state)}", highlight=False)
    console.print(_load(figures), highlight=False)
    for index, group in enumerate(figures["groups"]):
        title = f"Group {index}"
        if "servers" not in group:
            console.print(f"{title}: {_styled('down')}, {group.get('error')}", highlight=False)
            continue
        console.print(_servers(title, group))
        for line in _lines(group):
            console.print(line, highlight=False)


def _load(figures: dict[str, Any]) -> str:
    load = figures["load"]
    return (
        f"Requests: {load['generations']} of {load['max_generations']} running, "
        f"{load['queued_requests']} of {load['max_queued_requests']} waiting"
    )


def _servers(title: str, group: dict[str, Any]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE, pad_edge=False)
    for heading in ("", "model", "state"):
        table.add_column(heading, no_wrap=True)
    for heading in ("busy", "requests", "KV used\nMiB", "cached\nMiB", "budget\nMiB"):
        table.add_column(heading, justify="right", no_wrap=True)
    for server in group["servers"]:
        cache = server["cache"]
        sizes = [cache[key] for key in ("bytes", "cached_bytes", "budget_bytes")]
        table.add_row(
            server["server"],
            server["model"],
            _styled("ok"),
            _share(group["busy_share"].get(server["server"])),
            str(server["running_tasks"]),
            *([f"{size / _MIB:.1f}" for size in sizes] if sizes[-1] else ["-"] * 3),
        )
    for name, error in group["lost"].items():
        table.add_row(name, error, _styled("down"), *["-"] * 5)
    for name in group["suspected"]:
        table.add_row(name, "does not answer", _styled("down"), *["-"] * 5)
    return table


def _lines(group: dict[str, Any]) -> Iterator[str]:
    targets = group["targets"]
    busy, useful = _share(group["sp_utilisation"]), _share(group["useful_sp_utilisation"])
    yield (
        f"SP degree: {targets['busy']} in use, {targets['alive']} alive, "
        f"{targets['configured']} configured, {targets['required']} asked for by Equation 1; "
        f"{busy} of their time busy, {useful} useful"
    )
    yield (
        f"Drafts: {_share(group['acceptance'])} right, lookahead {group['lookahead']}; "
        f"{group['tokens_per_s']:.1f} tokens/s"
    )
    transports = "/".join(sorted({server["transport"] for server in group["servers"]}))
    yield (
        f"Latencies: target {group['target_ms']:.1f} ms, drafter {group['drafter_ms']:.1f} ms, "
        f"message {group['message_ms']:.3f} ms ({transports})"
    )
    yield f"Restarts: {group['restarts']}, moves of requests: {group['moves']}"
    for fault in group["faults"][-3:]:
        when = datetime.fromtimestamp(fault["time"]).isoformat(" ", "seconds")
        yield f"[yellow]Fault[/] {when}: {fault['server']}: {fault['error']}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _styled(state: str) -> str:
    return f"[{_STYLES[state]}]{state}[/]"
