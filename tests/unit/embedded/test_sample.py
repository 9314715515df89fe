"""The sample of `towpath up --sample` in a data folder."""

from pathlib import Path

import pytest

from towpath_contracts.problems.registry import ProblemError
from towpath_embedded.platform_state import DATABASE_FOLDER
from towpath_embedded.sample import sample_in


def test_the_sample_is_copied_once_and_what_was_changed_in_it_stays(tmp_path: Path) -> None:
    files = sample_in(tmp_path)
    files.policy.write_text("changed")
    (tmp_path / DATABASE_FOLDER).mkdir()
    assert sample_in(tmp_path).policy.read_text() == "changed" and Path(files.tools).is_file()


def test_the_sample_is_refused_where_a_platform_without_it_has_a_policy_of_its_own(tmp_path: Path) -> None:
    (tmp_path / DATABASE_FOLDER).mkdir()
    with pytest.raises(ProblemError, match="a platform without the sample") as refused:
        sample_in(tmp_path)
    assert "--data FOLDER" in refused.value.problem.remedy and not (tmp_path / "sample").exists()
