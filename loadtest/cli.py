"""The command line: ``run``, ``compare``, ``report``, ``soak``, and the commands of faults."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
import yaml
from typer.core import TyperGroup

from loadtest import scenario as scenarios
from loadtest import soak
from loadtest.console import print_comparison, print_soak, print_summary
from loadtest.errors import LoadTestError
from loadtest.faults import commands
from loadtest.faults.http_service import check_names_processes
from loadtest.metrics import figures
from loadtest.options import READY_S, ApiKey, DsiRay, http_client, progress_bar
from loadtest.record import Record, by_point, read_records
from loadtest.report.page import write_page
from loadtest.run import run as run_scenario
from loadtest.scenario import Scenario
from loadtest.server import wait_until_ready
from loadtest.summary import PAGE, RECORDS, SUMMARY, Summary, read_summary, write_summary


class _OneLineErrors(TyperGroup):
    """Shows what the user can mend as one line."""

    def invoke(self, ctx: Any) -> Any:
        """Runs a command."""
        try:
            return super().invoke(ctx)
        except LoadTestError as error:
            typer.echo(f"error: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(2) from error


app = typer.Typer(
    cls=_OneLineErrors,
    help="Load tests against any OpenAI-compatible server, and faults. Start with: run smoke",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Folder = Annotated[Path, typer.Argument(help="Of a run.", exists=True, file_okay=False)]
app.command("chaos")(commands.chaos_command)
app.command("lost-drafter")(commands.lost_drafter_command)
app.command("nodes")(commands.nodes_command)


@app.command("run")
def run_command(
    scenario: Annotated[
        str,
        typer.Argument(help=f"Path of a YAML file, or one of: {', '.join(scenarios.shipped())}."),
    ],
    url: Annotated[
        str, typer.Option(help="Of the server, with or without /v1.")
    ] = "http://127.0.0.1:8000",
    model: Annotated[str | None, typer.Option(help="Default: the server's first.")] = None,
    api_key: ApiKey = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="Change the scenario, such as load.rate=4; may be repeated.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="New folder. Default: loadtest-results/NAME-TIME.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Of the run. Default: the scenario's.")] = None,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the server.", min=0)] = 60.0,
) -> None:
    """Send a scenario's requests and write what came of them.

    The folder gets requests.jsonl (a line a request), summary.json and report.html.

    \b
    python -m loadtest run smoke
    python -m loadtest run poisson --set load.rate=4 --set load.duration_s=120
    python -m loadtest run closed --set extra_body.dsi.algorithm=si --name si
    """
    checked = scenarios.parse(scenarios.override(scenarios.read(scenario), _values(settings or ())))
    checked.points()
    name = name or Path(scenario).stem
    folder = out or Path("loadtest-results") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    _make(folder)
    summary = asyncio.run(_run(name, checked, http_client(url, api_key), model, wait, folder))
    write_summary(summary, folder)
    print_summary(summary)
    write_page(summary, read_records(folder / RECORDS), folder / PAGE)
    typer.echo(f"{folder / PAGE}")


async def _run(
    name: str,
    scenario: Scenario,
    http: httpx.AsyncClient,
    model: str | None,
    wait: float,
    folder: Path,
) -> Summary:
    with progress_bar() as bar, (folder / RECORDS).open("w", encoding="utf-8") as lines:
        task = bar.add_task("waiting for the server", total=None, failed=0)
        failed = 0

        def begin(label: str, count: int | None) -> None:
            bar.reset(task, description=label, total=count)

        def watch(record: Record) -> None:
            nonlocal failed
            failed += record.error is not None
            lines.write(record.model_dump_json() + "\n")
            bar.update(task, advance=1, failed=failed)

        async with http:
            return await run_scenario(name, scenario, http, model, wait, begin, watch)


@app.command("compare")
def compare_command(first: Folder, second: Folder) -> None:
    """Show two runs side by side; ratios are the second over the first."""
    print_comparison(read_summary(first), read_summary(second))


@app.command("report")
def report_command(folder: Folder) -> None:
    """Compute a run's figures and its page anew, from the lines of its requests."""
    old = read_summary(folder)
    records = read_records(folder / RECORDS)
    groups = by_point(records)
    points = [
        point.model_copy(update={"figures": figures(groups[point.name], old.scenario.slo)})
        for point in old.points
    ]
    summary = old.model_copy(update={"points": points})
    write_summary(summary, folder)
    print_summary(summary)
    write_page(summary, records, folder / PAGE)


@app.command("soak")
def soak_command(
    url: DsiRay = "http://127.0.0.1:8000",
    api_key: ApiKey = None,
    requests: Annotated[int, typer.Option(help="Different ones.", min=1)] = 3000,
    seconds: Annotated[float, typer.Option(help="They are repeated for so long.", min=0)] = 300.0,
    aborted: Annotated[
        float, typer.Option(help="Share of those given up within 400 ms.", min=0, max=1)
    ] = 1 / 3,
    concurrency: Annotated[int, typer.Option(help="Requests at once.", min=1)] = 16,
    logs: Annotated[
        Path | None,
        typer.Option(help="Of the server: no traceback may come.", exists=True, file_okay=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="Chooses the requests.")] = 0,
) -> None:
    """Send mixed requests and give many up: afterwards nothing may be left of any."""
    before = soak.tracebacks(logs)
    http, mix = http_client(url, api_key), soak.Mix(requests, aborted, seed)
    endings = asyncio.run(_soak(http, mix, concurrency, seconds))
    print_soak(endings)
    if new := soak.tracebacks(logs) - before:
        raise LoadTestError(f"tracebacks in {', '.join(sorted(new))}")
    if failed := sorted(endings.keys() - {soak.ANSWERED, soak.GIVEN_UP}):
        raise LoadTestError(f"requests failed: {', '.join(failed)}")


async def _soak(
    http: httpx.AsyncClient, mix: soak.Mix, concurrency: int, seconds: float
) -> soak.Counts:
    with progress_bar() as bar:
        task = bar.add_task("soak", total=None, failed=0)
        async with http:
            visits = mix.visits(await wait_until_ready(http, READY_S))
            await check_names_processes(http)
            endings = await soak.run(
                *(http, visits, concurrency, seconds), lambda: bar.update(task, advance=1)
            )
            await soak.check_idle(http)
            return endings


def _values(settings: Sequence[str]) -> dict[str, Any]:
    values = {}
    for setting in settings:
        path, equals, value = setting.partition("=")
        if not equals:
            raise LoadTestError(f"--set {setting}: PATH=VALUE is needed")
        try:
            values[path] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise LoadTestError(f"--set {setting}: the value is no YAML") from error
    return values


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LoadTestError(f"cannot make {folder}: {error.strerror}") from error
    if (folder / SUMMARY).exists():
        raise LoadTestError(f"{folder} holds another run: give a new folder")
