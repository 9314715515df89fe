"""Builds the wheel and the sdist of a checkout with pinned tools, and tries what users do with them."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

TIMEOUT_S = 600


class BuildError(RuntimeError):
    """A tool ended with an error; the message is what it said."""


class Distributions(NamedTuple):
    """What is published of a version."""

    wheel: Path
    sdist: Path


def run(*words: str | Path, cwd: Path | None = None) -> str:
    """Return what a program prints; raises BuildError with all that it said where it fails."""
    done = subprocess.run(
        words, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False, timeout=TIMEOUT_S,
    )  # fmt: skip
    if done.returncode:
        msg = f"{Path(words[0]).name} {' '.join(map(str, words[1:3]))} …: {done.stdout.strip()}"
        raise BuildError(msg)
    return done.stdout


def uv(*words: str | Path, cwd: Path | None = None) -> str:
    """Run uv, which `uv run` puts on the path of what it runs."""
    found = shutil.which("uv")
    if found is None:
        msg = "uv builds a release and is not on the path; install it with `pip install uv`"
        raise BuildError(msg)
    return run(found, *words, cwd=cwd)


def build_distributions(source: Path, folder: Path) -> Distributions:
    """Build the sdist of *source*, and from that the wheel; the tools that build are those with a known hash."""
    pins = source / "deploy" / "build-requirements.txt"
    uv("build", "--quiet", "--build-constraints", pins, "--require-hashes", "--out-dir", folder, source)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Distributions(wheel, sdist)


def differing_wheel(built: Distributions, source: Path, folder: Path) -> Iterator[str]:
    """Say so where the wheel of *source* itself is another than the one that the sdist gives."""
    pins = source / "deploy" / "build-requirements.txt"
    uv("build", "--wheel", "--quiet", "--build-constraints", pins, "--require-hashes", "--out-dir", folder, source)
    (wheel,) = folder.glob("*.whl")
    if wheel.read_bytes() != built.wheel.read_bytes():
        yield f"{wheel.name}: what the sdist builds is not what the checkout builds"


def wrong_page(built: Distributions) -> Iterator[str]:
    """Say what an index would refuse of the metadata and of the page that it makes of the README."""
    try:
        run(sys.executable, "-m", "twine", "--no-color", "check", "--strict", *built)
    except BuildError as error:
        yield str(error)


def wrong_installation(wheel: Path, version: str, folder: Path, extras: Sequence[str]) -> Iterator[str]:
    """Install *wheel* alone, and with each of *extras*, into environments of their own, and say what doesn't work."""
    for extra in ("", *extras):
        venv = folder / (extra or "alone")
        uv("venv", "--quiet", "--python", sys.executable, venv)
        python, command = venv / "bin" / "python", venv / "bin" / "towpath"
        wish = f"{wheel}[{extra}]" if extra else str(wheel)
        try:
            uv("pip", "install", "--quiet", "--python", python, wish)
            run(python, "-P", "-W", "error", "-c", "import towpath", cwd=folder)
            run(command, "--help", cwd=folder)
            said = run(command, "--version", cwd=folder).strip()
        except BuildError as error:
            yield f"with {wish}: {error}"
            continue
        if said != version:
            yield f"`towpath --version` says {said!r}, not {version}"
