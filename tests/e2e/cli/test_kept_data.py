"""What a platform keeps, on the command line: it is pruned by age, proved, and erased where a person asked for it."""

from pathlib import Path

import pytest
from tests.e2e.cli.conftest import MESSAGE, Ask, script

from towpath.cli import main


def erasures(ask: Ask) -> list[str]:
    """Return all that have been asked for, the latest first: other tests ask the same platform."""
    return [one["erasure_id"] for one in ask("erasures", "list")[1]["erasures"]]


@pytest.mark.prints("runs prune")
def test_runs_that_are_young_are_counted_as_that_and_never_pruned(ask: Ask, tmp_path: Path) -> None:
    ask("run", "support", MESSAGE, "--script", script(tmp_path, 5.0))
    before = erasures(ask)
    for more in (["--dry-run"], ["--yes"], ["--status", "completed", "--network", "support", "--yes"]):
        code, counted = ask("runs", "prune", "--older-than", "7d", *more)
        assert (code, counted["runs"], counted["pruned"], counted["next"]) == (0, 0, 0, "No run is so old.")
        assert counted["bytes"] == 0
    assert ask("runs", "prune", "--older-than", "6d")[1]["code"] == "request_invalid"
    assert "is no number of days" in ask("runs", "prune", "--older-than", "soon")[1]["detail"]
    assert erasures(ask) == before


@pytest.mark.prints(
    *("audit checkpoint", "audit erase", "audit export", "audit prove", "audit verify"),
    *("erasures confirm", "erasures list", "erasures show"),
)
def test_the_audit_of_that_day_is_exported_and_verified_without_the_platform(
    ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, run = ask("run", "support", MESSAGE, "--script", script(tmp_path, 5.0))
    kept, key, bundle = (str(tmp_path / name) for name in ("kept.txt", "audit.pub", "audit.jsonl"))
    code, taken = ask("audit", "checkpoint", "--file", kept, "--key-file", key)
    assert (code, taken["size"] > 0) == (0, True)
    proof = str(tmp_path / "proof.json")
    code, proved = ask("audit", "prove", run["run_id"], "--checkpoint", kept, "--file", proof)
    assert (code, proved["leaves"], proved["entries"] > 3) == (0, taken["size"], True)
    before = erasures(ask)
    code, asked = ask("audit", "erase", "--run", run["run_id"], "--reason", "request 4711")
    assert (code, asked["status"], asked["erased"]) == (0, "requested", 0)
    code, erased = ask("erasures", "confirm", asked["erasure_id"], "--yes")
    assert (code, erased["status"], erased["erased"] > 3) == (0, "done", True)
    assert ask("erasures", "show", asked["erasure_id"]) == (0, erased)
    assert erasures(ask) == [asked["erasure_id"], *before]
    assert ask("erasures", "withdraw", asked["erasure_id"])[1]["code"] == "erasure_settled"
    code, exported = ask("audit", "export", "--file", bundle)
    assert (code, exported["lines"]) == (0, len(Path(bundle).read_text("utf-8").splitlines()))
    monkeypatch.setenv("TOWPATH_SERVER", "http://127.0.0.1:9")
    code, report = ask("audit", "verify", bundle, "--checkpoint", kept, "--key", key)
    assert (code, report["faults"]) == (0, [])
    assert all("hidden leaves are proved to be of other projects" in note for note in report["notes"])
    assert report["figures"]["payloads_erased"] == erased["erased"]
    code, said = ask("audit", "verify", proof, "--checkpoint", kept, "--key", key)
    assert (code, said["faults"], said["figures"]["size"]) == (0, [], taken["size"])
    assert report["figures"]["decisions"] > 0
    lines = Path(bundle).read_text("utf-8").splitlines()
    place = next(n for n, line in enumerate(lines) if '"phase":"outcome"' in line)
    lines[place] = lines[place].replace('"verdict":"', '"verdict":"un')
    Path(bundle).write_text("\n".join(lines) + "\n", "utf-8")
    code, report = ask("audit", "verify", bundle, "--checkpoint", kept)
    assert (code, report["faults"][0]["line"]) == (1, place + 1)
    assert main(["audit", "verify", bundle, "-o", "table"]) == 1
    said = capsys.readouterr().out
    assert "This bundle does not hold. First fault: " in said and "Keep this file as evidence" in said
    assert "Don't trust leaf " in said and " entries are still what was signed." in said and "Trust none" not in said
    monkeypatch.undo()
