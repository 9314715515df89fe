"""Files that `--attach` names."""

import base64
from pathlib import Path

import pytest

from towpath.cli.shared.input_files import read_attached
from towpath_contracts.problems.registry import ProblemError


def test_a_file_is_attached_with_its_type(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    (tmp_path / "b.strange").write_bytes(b"x")
    found = read_attached((f"photo={tmp_path / 'a.png'}", f"other={tmp_path / 'b.strange'}"))
    assert found[0] == {"name": "photo", "media_type": "image/png", "data": base64.b64encode(b"\x89PNG").decode()}
    assert found[1]["media_type"] == "application/octet-stream"


@pytest.mark.parametrize(("pair", "code"), [("photo", "request_invalid"), ("photo=/no/such.png", "file_missing")])
def test_what_is_no_file_is_refused(pair: str, code: str) -> None:
    with pytest.raises(ProblemError) as caught:
        read_attached((pair,))
    assert caught.value.problem.code == code
