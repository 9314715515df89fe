"""`towpath audit export | verify | checkpoint | erase`: the audit as a log that proves itself.

`verify` reads files and nothing else: no platform, no database, no network. It says what it could not see.
"""

import itertools
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from cyclopts import Parameter

from towpath.cli.shared import short_ids
from towpath.cli.shared.erasure_columns import show_request
from towpath.cli.shared.exit_codes import OK, RUN_FAILED
from towpath.cli.shared.options import CONNECTION_OPTIONS, OUTPUT_OPTIONS, ConnectionOptions, OutputOptions
from towpath.cli.shared.output import Column, OutputPrinter
from towpath.cli.shared.progress import ProgressLine
from towpath.cli.shared.text import json_escaped
from towpath.cli.shared.times import parse_time
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.text import counted

_YAML_NOTE = re.compile(r"^note:", re.MULTILINE)
"""Begins the note of a checkpoint in YAML; no line of a signed note itself begins so."""

Many = Annotated[tuple[str, ...], Parameter(negative="")]
Files = Annotated[tuple[Path, ...], Parameter(negative="")]
Flag = Annotated[bool, Parameter(negative="")]

_CHECKPOINT = (Column("leaves", "size"), Column("at", "at"), Column("key", "fingerprint"))
_FAULTS = (Column("where", "place"), Column("code", "code"), Column("what", "message", is_whole=True))
_PROVED = (
    Column("leaf", "leaf"),
    Column("at", "at"),
    Column("project", "project"),
    Column("run", "run_id", is_id=True),
    Column("what", lambda row: f"{row['phase']} {row['verdict']}"),
    Column("tool", "tool"),
    Column("caller", "caller"),
    Column("by", "actor"),
    Column(
        "details",
        lambda row: "(erased or left out)" if row["detail"] is None else json_escaped(row["detail"])[:SHOWN_CHARS],
    ),
)
SHOWN_CHARS = 300
"""Of the details of a proved entry; a program gets all of them."""

_EVIDENCE = (
    "Keep this file as evidence, compare it with a backup and with checkpoints that you kept, and look who could write "
    "to the database."
)
"""What to do about a fault."""

_CHANGED = frozenset({"entry_changed", "payload_changed", "hidden_entry_changed"})
"""Faults of one entry, which leave every other one proved: its hash is in the tree whose root was signed."""

_UNPROVED = frozenset(
    {
        *("tree_changed", "leaf_missing", "checkpoint_signature", "truncated", "outside_differs", "outside_unreadable"),
        *("key_unknown", "unreadable", "page_signature", "page_missing", "line_missing", "earlier_unproved"),
    }
)
"""Faults after which the tree is not the signed one, or can't be compared with it."""

SHOWN = 20
"""Faults that a person is shown; a program gets all of them."""


async def export(
    *,
    file: Path,
    since: str | None = None,
    until: str | None = None,
    every_project: Flag = False,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Write the audit of the credential's project, with the proofs that it is whole, into one file.

    Args:
        file: The bundle to write.
        since: From then on: 30d, 12h, or a time; all that is kept, where it isn't given.
        until: Up to then; what came later is in the bundle as hashes only.
        every_project: Show the entries of every project, and hide none; takes the scope platform:operate.
    """
    begin, end = parse_time(since, "--since"), parse_time(until, "--until")
    unfinished = file.with_name(f"{file.name}.part")
    lines = 0
    try:
        with unfinished.open("w", encoding="utf-8") as written:
            async with common.connect() as client:
                with common.out().progress("Exporting the audit") as shown:
                    async for line in client.audit.export(since=begin, until=end, every_project=every_project):
                        written.write(f"{line}\n")
                        lines += 1
                        shown.count(lines, "lines")
        unfinished.replace(file)
    except OSError as error:
        raise ProblemError(problem("file_missing", f"{file} can't be written: {error.strerror}")) from error
    finally:
        unfinished.unlink(missing_ok=True)
    common.out().record({"file": str(file), "lines": lines}, (Column("file", "file"), Column("lines", "lines")))


def verify(
    bundle: Path, /, *, checkpoint: Files = (), key: Many = (), printed: OutputOptions = OUTPUT_OPTIONS
) -> int:  # fmt: skip
    """Check a bundle or a proof without the platform. The exit code is 1 where there is a fault; the first is shown.

    Args:
        bundle: What `towpath audit export` or `towpath audit prove` wrote.
        checkpoint: Checkpoints that were kept elsewhere, as `towpath audit checkpoint` or the platform's checkpoint
            file gives them; may be given more than once. Without one a log that was cut off is not noticed.
        key: The public key that is trusted, or its fingerprint (sha256:…), or a file with either; may be given more
            than once. Without one the bundle's own word is taken.
    """
    from towpath_audit.proof import is_proof, verify_proof
    from towpath_audit.verifier import verify as check

    notes = [note for path in checkpoint for note in _kept_notes(path)]
    trusted = [_key(one) for one in key]
    lines = _lines(bundle)
    head = "".join(itertools.islice(lines, 2))
    out = printed.out()
    with out.progress(f"Verifying {bundle}") as shown:
        if is_proof(head):
            report = verify_proof(head + "".join(lines), checkpoints=notes, keys=trusted)
        else:
            report = check(_counted(_lines(bundle), shown), checkpoints=notes, keys=trusted)
    if not out.for_people:
        out.data(report.as_json())
    elif is_proof(head):
        _show_proof(out, report.as_json())
    else:
        _show_verification(out, report.as_json())
    return OK if report.holds else RUN_FAILED


async def prove(
    run: str,
    execution: UUID | None = None,
    /,
    *,
    checkpoint: Path | None = None,
    file: Path | None = None,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Prove that the entries of a run, or of one call of it, stand in the log; `towpath audit verify` checks the proof.

    Args:
        run: The run's id, or its beginning or end.
        execution: Only of this call.
        checkpoint: For the last checkpoint of this file instead of the newest; who keeps it needs no other key.
        file: Write the proof into this file.
    """
    size = None if checkpoint is None else _size_of_last(checkpoint)
    async with common.connect() as client:
        proof = await client.audit.prove(await short_ids.resolve_run_id(client, run), execution_id=execution, size=size)
    if file is None:
        print(proof.proof, end="")
        return
    _write(file, proof.proof)
    row = {"file": str(file), "entries": proof.entries, "leaves": proof.size}
    common.out().record(row, tuple(Column(name, name) for name in row))


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, "utf-8")
    except OSError as error:
        raise ProblemError(problem("file_missing", f"{file} can't be written: {error.strerror}")) from error


def _size_of_last(path: Path) -> int:
    from towpath_audit.notes import Checkpoint, NoteError

    try:
        return Checkpoint.read(f"{_kept_notes(path)[-1].rpartition(chr(10) * 2)[0]}\n").size
    except NoteError as error:
        raise ProblemError(problem("request_invalid", f"{path} holds no checkpoint")) from error


async def checkpoint(
    *, file: Path | None = None, key_file: Path | None = None, common: ConnectionOptions = CONNECTION_OPTIONS
) -> None:  # fmt: skip
    """Take a signed checkpoint over everything that is recorded now, to be kept where the platform can't reach it.

    Args:
        file: Append the checkpoint to this file.
        key_file: Write the public key into this file, for `verify --key`.
    """
    async with common.connect() as client:
        taken = await client.audit.checkpoint()
    try:
        _keep(taken.note, taken.public_key, file, key_file)
    except OSError as error:
        raise ProblemError(problem("file_missing", f"the checkpoint can't be written: {error}")) from error
    out = common.out()
    if not (out.for_people and file is None):
        out.record(taken.model_dump(mode="json"), _CHECKPOINT)
        return
    if sys.stdout.isatty():  # what goes into a file is to be kept there, and is the note alone
        out.record(taken.model_dump(mode="json"), _CHECKPOINT)
    out.write(taken.note)


async def erase(
    *,
    reason: str,
    run: str | None = None,
    execution: UUID | None = None,
    caller: str | None = None,
    before: str | None = None,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Ask for payloads of entries (details, digests of arguments) to be erased; the entries and every proof stay.

    Nothing is erased until another person confirms it, or you do after the delay: towpath erasures confirm ID.

    Args:
        reason: Why; it stands in the log for ever, so it should name nobody.
        run: Of this run.
        execution: Of this call.
        caller: Of calls on this caller's behalf.
        before: Of entries from before this time: 30d, 12h, or a time.
    """
    at = parse_time(before, "--before")
    if run is None and execution is None and caller is None and at is None:
        raise ProblemError(problem("request_invalid", "say whose payloads: --run, --execution, --caller or --before"))
    async with common.connect() as client:
        run_id = None if run is None else await short_ids.resolve_run_id(client, run)
        asked = await client.audit.request_erasure(
            reason, run_id=run_id, execution_id=execution, caller=caller, before=at
        )
    show_request(common.out(), asked)


def _keep(note: str, public_key: str, file: Path | None, key_file: Path | None) -> None:
    if file is not None:
        with file.open("a", encoding="utf-8") as opened:
            opened.write(f"{note}\n")
    if key_file is not None:
        key_file.write_text(f"{public_key}\n", "utf-8")


def _what_is_proved(report: Mapping[str, Any]) -> str:
    """Say which entries can't be trusted, and what is proved nevertheless."""
    from towpath_audit.verifier import MAX_FAULTS

    faults = report["faults"]
    if len(faults) == MAX_FAULTS or any(one["code"] in _UNPROVED for one in faults):
        return "Trust none of these entries: what does not fit is more than single entries."
    leaves = sorted({one["leaf"] for one in faults if one["code"] in _CHANGED})
    if not leaves:  # entries don't fit each other, or the file was changed beside them
        return "Every entry is what was signed; look at what does not fit it."
    named = ", ".join(str(leaf) for leaf in leaves[:SHOWN]) + (" and others" if len(leaves) > SHOWN else "")
    rest = report["figures"]["leaves"] + report["figures"]["hidden"] - len(leaves)
    which = "leaf" if len(leaves) == 1 else "leaves"
    return f"Don't trust {which} {named}; the other {counted(rest, 'entry', 'entries')} are still what was signed."


def _show_verification(out: OutputPrinter, report: dict[str, Any]) -> None:
    figures, faults = report["figures"], report["faults"]
    if faults:
        out.write(f"This bundle does not hold. First fault: {faults[0]['place']}: {faults[0]['message']}", "bold red")
        out.rows("faults", faults[:SHOWN], _FAULTS, empty="")
        if len(faults) > SHOWN:
            out.write(f"and {len(faults) - SHOWN} more: -o json")
        out.write(f"{_what_is_proved(report)} {_EVIDENCE}")
    else:
        out.write("This bundle holds.", "bold green")
    if figures["project"] is not None:
        out.write(f"Project {figures['project']}, {_covered_time(figures)}; exported at {figures['exported_at']}")
    shown = counted(figures["leaves"], "entry", "entries")
    out.write(f"{shown} shown, {figures['hidden']} as hashes, from leaf {figures['first']} to {figures['size']}")
    parts = (f"{figures[name]} {words}" for name, words in _FIGURES)
    out.write(", ".join(parts))
    for fingerprint in figures["keys"]:
        out.write(f"signed by {fingerprint}")
    for note in report["notes"]:
        out.write(f"! {note}", "yellow")


def _show_proof(out: OutputPrinter, report: dict[str, Any]) -> None:
    figures, faults = report["figures"], report["faults"]
    if faults:
        out.write(f"This proof does not hold. First fault: {faults[0]['message']}", "bold red")
    else:
        shown = counted(figures["entries"], "entry", "entries")
        out.write(f"This proof holds, for {shown} of the log {figures['origin']}.", "bold green")
        out.write(f"The checkpoint covers {figures['size']} leaves and is of {figures['at'] or 'no time that it says'}")
        out.rows("proved", figures["proved"], _PROVED, empty="")
    for fingerprint in figures.get("keys", ()):
        out.write(f"signed by {fingerprint}")
    for note in report["notes"]:
        out.write(f"! {note}", "yellow")


def _covered_time(figures: dict[str, Any]) -> str:
    if figures["since"] is None and figures["until"] is None:
        return "all that is kept"
    return f"from {figures['since'] or 'the first entry'} to {figures['until'] or 'the last'}"


_FIGURES = (
    ("decisions", "decisions"),
    ("effects", "calls of the ledger"),
    ("checkpoints", "checkpoints"),
    ("payloads_erased", "payloads erased"),
)


def _counted(lines: Iterator[str], shown: ProgressLine) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        yield line
        shown.count(number, "lines")


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            yield from file
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemError(problem("file_missing", f"{path}: {error}")) from error


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemError(problem("file_missing", f"{path}: {error}")) from error


def _kept_notes(path: Path) -> list[str]:
    """Return the checkpoints of a file: signed notes, or what `towpath audit checkpoint` writes as JSON or YAML."""
    from towpath_audit.notes import split_notes

    text = _text(path)
    notes = list(_notes_in_json(text)) if text.lstrip().startswith("{") else [text]
    if _YAML_NOTE.search(text):
        notes = list(_notes_in_yaml(text))
    found = [note for one in notes for note in split_notes(one)]
    if not found:
        remedy = "Keep one there: towpath audit checkpoint --file FILE."
        raise ProblemError(problem("request_invalid", f"{path} holds no checkpoint", remedy=remedy))
    return found


def _notes_in_json(text: str) -> Iterator[str]:
    """Yield the member `note` of each of the JSON objects that follow each other in *text*, up to what is none."""
    place, decoder = 0, json.JSONDecoder()
    while place < len(text):
        try:
            taken, place = decoder.raw_decode(text, place)
        except ValueError:
            return
        if isinstance(taken, dict) and isinstance(taken.get("note"), str):
            yield taken["note"]
        place += len(text) - place - len(text[place:].lstrip())


def _notes_in_yaml(text: str) -> Iterator[str]:
    """Yield the field `note` of each checkpoint in *text*; those that were appended with `>>` have nothing between."""
    import yaml

    lines = [line for line in text.splitlines(keepends=True) if line.rstrip() != "---"]
    first = next(line for line in lines if line.strip()).partition(":")[0]
    starts = [place for place, line in enumerate(lines) if line.startswith(f"{first}:")]
    for start, end in itertools.pairwise([*starts, len(lines)]):
        try:
            taken = yaml.safe_load("".join(lines[start:end]))
        except yaml.YAMLError:
            return
        if isinstance(taken, dict) and isinstance(taken.get("note"), str):
            yield taken["note"]


def _key(option: str) -> str:
    """A key, a fingerprint, or a file with one of them."""
    if option.startswith("sha256:") or "+" in option:
        return option
    text = _text(Path(option)).strip()
    if "\n" in text or not (text.startswith("sha256:") or "+" in text):
        raise ProblemError(problem("request_invalid", f"{option} holds no public key and no fingerprint"))
    return text
