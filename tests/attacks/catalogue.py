"""All attacks, by name: importing the modules of the corpus registers them."""

import importlib
import pkgutil

from tests.attacks import corpus
from tests.attacks.attack import ATTACKS, Attack


def catalogue() -> dict[str, Attack]:
    """Import the corpus and return its attacks, in the order of their names."""
    for module in pkgutil.iter_modules(corpus.__path__):
        importlib.import_module(f"{corpus.__name__}.{module.name}")
    return dict(sorted(ATTACKS.items()))
