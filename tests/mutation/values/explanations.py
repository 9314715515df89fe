"""Why some values need no test: `explained.yaml`, a list of reasons, each with the values that it holds for.

A value that is not there, or has two reasons, is refused: the file says what is true of the code as it is.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

EXPLAINED = Path(__file__).with_name("explained.yaml")


class Explanation(BaseModel):
    """A reason, and the names of the values that it holds for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    because: Annotated[str, Field(min_length=1)]
    values: Annotated[list[str], Field(min_length=1)]


def read_explanations(file: Path = EXPLAINED) -> list[Explanation]:
    """Return the reasons; none where there is no file. Raises pydantic's ValidationError for what is none."""
    if not file.exists():
        return []
    return TypeAdapter(list[Explanation]).validate_python(yaml.safe_load(file.read_text("utf-8")) or [])


def reasons(explanations: Iterable[Explanation]) -> Mapping[str, str]:
    """Return the reason of each value."""
    return {name: one.because for one in explanations for name in one.values}


def wrong_names(explanations: Iterable[Explanation], names: Iterable[str]) -> list[str]:
    """Return the names in *explanations* that are none of *names*, or stand there twice."""
    known = set(names)
    given = [name for one in explanations for name in one.values]
    return sorted({name for name in given if name not in known or given.count(name) > 1})
