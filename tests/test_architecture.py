"""The arrows of the house, read from the imports of every file; and that files stay small."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import dsi_ray

PACKAGE = Path(dsi_ray.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
SETTINGS = {"config", "params"}

MAY_IMPORT = {
    "core": {"core"},
    "config": {"params"},
    "params": set(),
    "demo": {"demo"},
    "models": {"models", "core.messages", "core.path", "demo", *SETTINGS},
    "runtime": {"runtime", "core", "models", *SETTINGS},
    "serving": {"serving", "runtime", "core", "models", *SETTINGS},
    "experiments": {"experiments", "runtime", "core", "models", "demo", *SETTINGS},
    "cli": {"cli", "serving", "experiments", "runtime", "core", "models", "demo", *SETTINGS},
    "__init__": {"runtime", *SETTINGS},
}
"""By top-level module or package of ours, which others it may import."""

OUTSIDE_CORE = {
    "asyncio",
    "concurrent",
    "numpy",
    "ray",
    "threading",
    "time",
    "torch",
    "transformers",
}
KNOWS_RAY = {"runtime", "serving"}


def layer(file: Path) -> str:
    """The top-level package or module that a file belongs to."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(file: Path) -> Iterator[str]:
    """Every module that a file imports, at its top or inside a function."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def ours(file: Path) -> Iterator[str]:
    """What a file imports of this package, without the package's name."""
    for module in imports(file):
        if module.startswith("dsi_ray."):
            yield module.removeprefix("dsi_ray.")


def allowed(module: str, packages: set[str]) -> bool:
    """Whether ``module`` is one of ``packages``, below one, or a name of the package itself."""
    is_name = not (PACKAGE / module.split(".")[0]).exists() and module.split(".")[0] not in SETTINGS
    return is_name or any(f"{module}.".startswith(f"{package}.") for package in packages)


def name(file: Path) -> str:
    """How a test names a file."""
    return str(file.relative_to(PACKAGE))


@pytest.mark.parametrize("file", FILES, ids=name)
def test_arrows_run_one_way(file: Path) -> None:
    packages = MAY_IMPORT[layer(file)]
    assert [module for module in ours(file) if not allowed(module, packages)] == []


@pytest.mark.parametrize("file", FILES, ids=name)
def test_only_runtime_and_serving_know_ray(file: Path) -> None:
    if layer(file) not in KNOWS_RAY:
        assert [module for module in imports(file) if module.split(".")[0] == "ray"] == []


@pytest.mark.parametrize("file", [f for f in FILES if layer(f) == "core"], ids=name)
def test_core_is_sans_io(file: Path) -> None:
    assert {module.split(".")[0] for module in imports(file)} & OUTSIDE_CORE == set()


def test_files_are_small() -> None:
    lines = {name(file): len(file.read_text().splitlines()) for file in FILES}
    assert [file for file, count in lines.items() if count > 500] == []
    long = [file for file, count in lines.items() if count > 300]
    assert len(long) <= len(lines) / 10, long


def test_rooms_are_small() -> None:
    rooms = Counter(str(file.parent.relative_to(PACKAGE)) for file in FILES)
    assert [room for room, count in rooms.items() if count > 12] == []


def test_each_class_name_stands_for_one_thing() -> None:
    homes = Counter(
        node.name
        for file in FILES
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in homes.items() if count > 1] == []
