"""The images are built from pinned parts, and run without rights."""

import re
from pathlib import Path

import pytest

from dsi_ray.serving.proxy import CALLBACK_VARIABLE, middlewares
from tests.deployments.serve_files import FOLDER, ROOT

DOCKERFILES = sorted(FOLDER.glob("Dockerfile*"))
every_dockerfile = pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)


def instructions(file: Path, name: str) -> list[str]:
    """The arguments of every instruction of that name, in order."""
    text = file.read_text().replace("\\\n", "")
    return re.findall(rf"^{name} (.*)$", text, re.MULTILINE)


@every_dockerfile
def test_base_images_have_a_version(file: Path) -> None:
    for base in instructions(file, "FROM"):
        tag = base.partition(" ")[0].partition(":")[2]
        assert re.match(r"(\d|\$\{CUDA\})", tag), base


@every_dockerfile
def test_dependencies_are_the_tested_ones(file: Path) -> None:
    dependencies, package = (line for line in instructions(file, "RUN") if "pip install" in line)
    assert "-c constraints.txt" in dependencies
    assert "--no-deps" in package


@every_dockerfile
def test_what_is_copied_is_sent_to_the_builder(file: Path) -> None:
    sent = set(re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE))
    local = [copy.split()[:-1] for copy in instructions(file, "COPY") if "--from" not in copy]
    copied = {source for sources in local for source in sources}
    assert copied == sent
    assert all((ROOT / source).exists() for source in copied)


@every_dockerfile
def test_serves_proxies_answer_in_the_envelope(file: Path) -> None:
    (settings,) = instructions(file, "ENV")
    variables = dict(setting.split("=", 1) for setting in settings.split())
    assert variables[CALLBACK_VARIABLE] == f"{middlewares.__module__}:{middlewares.__name__}"


@every_dockerfile
def test_nothing_runs_as_root(file: Path) -> None:
    (user,) = instructions(file, "USER")
    assert int(user) > 0
