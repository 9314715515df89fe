"""A file with tools that ends the process which imports it is told as that: without a word its worker would be gone."""

from pathlib import Path

import pytest

from towpath import RefusedError
from towpath_worker.wiring import load_tools


def test_a_file_that_calls_exit_is_named_with_what_it_ended_with(tmp_path: Path) -> None:
    file = tmp_path / "tools.py"
    file.write_text("import sys\n\nsys.exit('no key')\n")
    with pytest.raises(RefusedError) as refused:
        load_tools([str(file)], with_builtin=False)
    assert refused.value.code == "user_code_unreadable" and f"ends the process that imports {file}" in str(
        refused.value
    )
    assert f"{file}:3: SystemExit('no key')" in str(refused.value) and "__main__" in refused.value.problem.remedy
