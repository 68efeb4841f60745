"""The ``dsi-ray`` command. Ray and torch are imported only when a command runs."""

from typing import Annotated

import typer

import dsi_ray
from dsi_ray.cli import bench, demo, doctor, generate, plan, profile, serve, simulate, status
from dsi_ray.cli.terminal.errors import OneLineErrors
from dsi_ray.cli.terminal.json_file import JsonCommand

app = typer.Typer(
    name="dsi-ray",
    cls=OneLineErrors,
    help="Serve large language models with Distributed Speculative Inference (DSI) on Ray: a small "
    "drafter runs ahead while several target servers verify its drafts, and the text is the "
    "target's own. 'dsi-ray demo' shows it, without a GPU or a download.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve")(serve.command)
app.command("generate")(generate.command)
app.command("bench", cls=JsonCommand)(bench.command)
app.command("demo", cls=JsonCommand)(demo.command)
app.command("plan", cls=JsonCommand)(plan.command)
app.command("profile", cls=JsonCommand)(profile.command)
app.command("status", cls=JsonCommand)(status.command)
app.command("doctor", cls=JsonCommand)(doctor.command)
app.add_typer(simulate.app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dsi-ray {dsi_ray.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass
