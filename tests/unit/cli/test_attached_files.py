"""Files that `--attach` names."""

import base64
from pathlib import Path

import pytest

from towpath.cli.shared.input_files import read_attached
from towpath_contracts.problems.registry import ProblemError


def test_a_file_is_attached_with_its_type(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    (tmp_path / "b.strange").write_bytes(b"\xff")
    found = read_attached((f"photo={tmp_path / 'a.png'}", f"other={tmp_path / 'b.strange'}"))
    assert found[0] == {"name": "photo", "media_type": "image/png", "data": base64.b64encode(b"\x89PNG").decode()}
    assert found[1]["media_type"] == "application/octet-stream"


def test_a_document_has_the_type_of_its_ending_and_any_other_text_is_plain(tmp_path: Path) -> None:
    contents = {"a.pdf": b"%PDF-", "b.csv": b"a,b", "c.json": b"{}", "d.md": b"#", "e.strange": b"x", "f": b"x"}
    contents |= {"g.csv.gz": b"\x1f\x8b", "h.zip": b"PK\xff"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    found = read_attached(tuple(f"{name}={tmp_path / name}" for name in contents))
    assert {one["name"]: one["media_type"] for one in found} == {
        "a.pdf": "application/pdf",
        "b.csv": "text/csv",
        "c.json": "application/json",
        "d.md": "text/markdown",
        "e.strange": "text/plain",
        "f": "text/plain",
        "g.csv.gz": "application/octet-stream",
        "h.zip": "application/zip",
    }


@pytest.mark.parametrize(("pair", "code"), [("photo", "request_invalid"), ("photo=/no/such.png", "file_missing")])
def test_what_is_no_file_is_refused(pair: str, code: str) -> None:
    with pytest.raises(ProblemError) as caught:
        read_attached((pair,))
    assert caught.value.problem.code == code
