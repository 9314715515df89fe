"""A CycloneDX bill of materials (SBOM) of what the image installs, from `deploy/requirements.txt`.

Nothing is asked of a network. Names, versions and hashes are those of the requirements; licences are read from the
metadata of packages installed here, and only where the very version is installed: another may have another licence.
"""

import tomllib
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from tests.supply_chain.pins import Pin

MARKER = "towpath:environment-marker"
"""The property of a component that is installed in some environments only (PEP 508)."""

NO_LICENCE = {"", "UNKNOWN"}
TEXT_LENGTH = 100
"""A `License` field that is longer holds a licence's text, not its name."""


def bill_of_materials(pins: Sequence[Pin], project: Path) -> str:
    """Return CycloneDX 1.6 as JSON: the product of the `pyproject.toml` *project*, and *pins* as what it installs."""
    about = tomllib.loads(project.read_text("utf-8"))["project"]
    root = Component(
        name=about["name"],
        version=about["version"],
        type=ComponentType.APPLICATION,
        licenses=[LicenseFactory().make_from_string(about["license"])],
        bom_ref=about["name"],
    )
    components = [_component(pin) for pin in pins]
    bom = Bom(components=components)
    bom.metadata.component = root
    bom.register_dependency(root, components)
    return JsonV1Dot6(bom).output_as_string(indent=2)


def _component(pin: Pin) -> Component:
    purl = PackageURL("pypi", name=pin.name, version=pin.version)
    return Component(
        name=pin.name,
        version=pin.version,
        type=ComponentType.LIBRARY,
        purl=purl,
        bom_ref=f"{purl}#{pin.marker}" if pin.marker else str(purl),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=text) for text in pin.sha256],
        licenses=licences(pin),
        properties=[Property(name=MARKER, value=pin.marker)] if pin.marker else [],
    )


def licences(pin: Pin) -> list[License]:
    """Return what the installed package says of its licence; nothing where this version is not installed here."""
    try:
        found = metadata.distribution(pin.name)
    except metadata.PackageNotFoundError:
        return []
    if found.version != pin.version:
        return []
    factory = LicenseFactory()
    names = stated_licences(found)
    if "License-Expression" in found.metadata or len(names) == 1:
        return [factory.make_from_string(names[0])]
    return [factory.make_with_name(name) for name in names]


def stated_licences(found: metadata.Distribution) -> list[str]:
    """Return what the metadata of a package says of its licence: an SPDX expression alone, else the names it uses."""
    if expression := found.metadata.get("License-Expression", ""):
        return [expression]
    classifiers = [text for text in found.metadata.get_all("Classifier", []) if text.startswith("License ::")]
    names = [text.rpartition(" :: ")[2] for text in classifiers if text != "License :: OSI Approved"]
    stated = (found.metadata.get("License") or "").strip()
    return [stated] if stated not in NO_LICENCE and len(stated) <= TEXT_LENGTH and "\n" not in stated else names
