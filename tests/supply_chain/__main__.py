"""What the image installs, and what is known to be wrong with it; neither command opens a connection.

    python -m tests.supply_chain sbom [FILE]                        CycloneDX of deploy/requirements.txt
    python -m tests.supply_chain audit --advisories FOLDER [SBOM]   that, or an SBOM, against advisories in OSV format

FOLDER is an unpacked export of the OSV database, or a checkout of one of its sources. `audit` ends with 1 where a
version is affected, or where something is accepted that affects none any more, and with 2 where it can't be decided.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from packageurl import PackageURL
from tests.supply_chain.advisories import AdvisoryError, affected, read_advisories
from tests.supply_chain.bill_of_materials import bill_of_materials
from tests.supply_chain.pins import PinError, read_pins
from tests.support.places import ROOT


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return how it ends."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.supply_chain", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requirements", type=Path, default=ROOT / "deploy" / "requirements.txt")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("sbom").add_argument("file", type=Path, nargs="?")
    audit = commands.add_parser("audit")
    audit.add_argument("--advisories", type=Path, required=True, metavar="FOLDER")
    audit.add_argument(
        "--accept", action="append", default=[], metavar="ID", help="an advisory known not to matter here"
    )
    audit.add_argument("sbom", type=Path, nargs="?")
    said = parser.parse_args(words)
    try:
        if said.command == "sbom":
            return _write(said.requirements, said.file)
        return _audit(_packages(said.sbom, said.requirements), said.advisories, said.accept)
    except (AdvisoryError, PinError, OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2


def _write(requirements: Path, file: Path | None) -> int:
    pins = read_pins(requirements)
    text = bill_of_materials(pins, ROOT / "pyproject.toml")
    if file is None:
        sys.stdout.write(text)
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    silent = [c["name"] for c in json.loads(text)["components"] if not c.get("licenses")]
    sys.stderr.write(f"{len(pins)} packages, {len(silent)} of them without a licence: ")
    sys.stderr.write("the version is not installed here, or says none\n" if silent else "\n")
    return 0


def _packages(sbom: Path | None, requirements: Path) -> list[tuple[str, str]]:
    """Return names and versions of the PyPI packages of an SBOM, or of the requirements."""
    if sbom is None:
        return [(pin.name, pin.version) for pin in read_pins(requirements)]
    components = json.loads(sbom.read_text("utf-8")).get("components", [])
    urls = [PackageURL.from_string(found["purl"]) for found in components if "purl" in found]
    packages = [(url.name, url.version or "") for url in urls if url.type == "pypi"]
    if len(packages) < len(components) or not packages:
        others = len(components) - len(packages)
        msg = f"{sbom}: {others} of {len(components)} components are no PyPI packages with a purl"
        raise ValueError(msg)
    return packages


def _audit(packages: list[tuple[str, str]], folder: Path, accepted: Sequence[str]) -> int:
    advisories = read_advisories(folder)
    found = affected(packages, advisories)
    open_ = [one for one in found if not {one.advisory, *one.aliases} & set(accepted)]
    needless = set(accepted) - {name for one in found for name in (one.advisory, *one.aliases)}
    newest = max(str(advisory.get("modified", "")) for advisory in advisories)
    sys.stdout.writelines(f"{one}\n" for one in open_)
    sys.stdout.writelines(f"{name} is accepted and affects nothing\n" for name in sorted(needless))
    sys.stdout.write(
        f"{len(packages)} packages, {len(advisories)} advisories, the newest of {newest[:10] or 'no known day'}: "
        f"{len(open_)} findings, {len(found) - len(open_)} accepted\n"
    )
    return 1 if open_ or needless else 0


if __name__ == "__main__":
    sys.exit(main())
