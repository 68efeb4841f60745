"""Wrong input is answered in one line that says what to do, before anything is started."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dsi_ray.cli import app

from .conftest import dsi_ray

COMMANDS = ["serve", "generate", "bench", "demo", "doctor"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def error_of(result: Result, status: int = 2) -> str:
    """The one line on stderr."""
    assert (result.exit_code, result.stdout) == (status, "")
    line = result.stderr.removesuffix("\n")
    assert line.startswith("error: ") and "\n" not in line
    return line


def arguments_of(command: str, *more: str) -> list[str]:
    return [command, *(["x"] if command == "generate" else []), *more]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("options", "mentions"),
    [
        (["--sp-degree", "0"], "--sp-degree"),
        (["--sp-degree", "many"], "--sp-degree"),
        (["--lookahead", "0"], "lookahead"),
        (["--lookahead", "often"], "lookahead"),
        (["--algorithm", "magic"], "--algorithm"),
        (["--dtype", "int4"], "--dtype"),
        (["--device", "abacus"], "--device"),
        (["--target", "lookup"], "lookup"),
        (["--target", "simulated"], "tpot_ms"),
        (["--target", "simulated:tpot=3"], "tpot"),
        (["--config", "/no/such/file.yaml"], "/no/such/file.yaml"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_shared_options(command: str, options: list[str], mentions: str) -> None:
    assert mentions in error_of(run(*arguments_of(command, *options)))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("sp_degre: 2", "sp_degre"),
        ("sp_degree: none", "sp_degree"),
        ("target: {model: demo, dtyp: float32}", "target.dtyp"),
        ("- a list", "keys and values"),
        ("a: [", "cannot read"),
    ],
)
def test_config_files(command: str, text: str, mentions: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    line = error_of(run(*arguments_of(command, "--config", str(file))))
    assert mentions in line
    assert str(file) in line


@pytest.mark.parametrize(
    ("arguments", "mentions"),
    [
        (["generate"], "PROMPT"),
        (["generate", "x", "--max-tokens", "0"], "max_tokens"),
        (["generate", "x", "--max-tokens", "-3"], "max_tokens"),
        (["generate", "x", "--stop", ""], "stop"),
        (["generate", "x", *["--stop=a"] * 5], "stop"),
        (["serve", "--port", "0"], "port"),
        (["bench", "--prompts", "0"], "--prompts"),
        (["bench", "--json", "/no/such/directory/out.json"], "/no/such/directory"),
        (["status", "--url", "no-address"], "--url"),
        (["status", "--seconds", "0"], "--seconds"),
        (["fly"], "fly"),
        ([], "--help"),
    ],
)
def test_own_arguments(arguments: list[str], mentions: str) -> None:
    assert mentions.lower() in error_of(run(*arguments)).lower()


@pytest.mark.parametrize("target", ["/no/such/model", "./no-such-model", "no-such-file.gguf"])
def test_unknown_model(target: str) -> None:
    line = error_of(run("generate", "x", "--target", target, "--drafter", "lookup"))
    assert target in line


def test_help_is_fast_and_lists_the_commands() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert all(command in result.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_the_shared_options(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    for option in ("--config", "--target", "--drafter", "--lookahead", "--address", "--json"):
        assert option in result.stdout


def test_version() -> None:
    assert run("--version").stdout.startswith("dsi-ray ")


def test_nothing_heavy_is_imported_for_help() -> None:
    code = (
        "import sys; from dsi_ray.cli import app; "
        "print(*{'ray', 'torch', 'transformers', 'fastapi'} & set(sys.modules))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == ""


GENERATE = ["generate", "x", "--target=simulated:tpot_ms=1", "--drafter=lookup", "--max-tokens=2"]


@pytest.mark.parametrize(
    ("variable", "path", "mentions"),
    [
        ("RAY_TMPDIR", "long" * 30, "too long"),
        ("RAY_TMPDIR", "file", "Not a directory"),
        ("HOME", "file", "Not a directory"),
    ],
)
def test_places_where_ray_cannot_be(
    starts_ray: None,
    variable: str,
    path: str,
    mentions: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = tmp_path / path
    place.touch() if path == "file" else place.mkdir()
    monkeypatch.setenv(variable, str(place))
    # As a user has it: Ray then makes a token.
    monkeypatch.delenv("RAY_AUTH_MODE")
    done = dsi_ray(*GENERATE)
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert lines[-1].startswith("error: Ray cannot start here") and mentions in lines[-1]
    assert variable in lines[-1]
    assert "Traceback" not in done.stderr


def test_a_terminal_that_cannot_show_the_text(
    on_cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}.items():
        monkeypatch.setenv(name, value)
    done = dsi_ray(*GENERATE, on_cluster)
    assert done.returncode == 0, done.stderr
    # What the simulated model writes.
    assert done.stdout.count("?") >= 4


def test_status_of_no_server(port: int) -> None:
    url = f"http://127.0.0.1:{port}"
    line = error_of(run("status", "--url", url), status=1)
    assert url in line and "dsi-ray serve" in line
