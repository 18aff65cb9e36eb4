"""The parts of an output: files that are there whole or not at all, each with a note about the run it is of.

The parts of `out.jsonl` lie in `out.jsonl.parts/`: `part-00003-of-00008.jsonl`, what that section of the data
gave (of arrays always `.npz`), and beside it `part-00003-of-00008.json`, the note. A part counts once its
note is there and has its hash; whoever writes it again writes the same bytes.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.base.files import DRAFT, file_hash, read_json, replacing, write_json, writing
from abw.core.data.feed import Section
from abw.core.data.tensors import read_tensors
from abw.core.store.arrays import ArrayFile
from abw.core.store.outputs import ARRAYS, LINES, writes_lines

# Of the notes.
SCHEMA_VERSION = 3

# What an output depends on, as JSON: parts of which it is the same belong together.
RunKey = Mapping[str, Any]

_NAME = re.compile(r"part-(\d{5,})-of-(\d{5,})\.json")


@dataclass(frozen=True, slots=True)
class Part:
    """Part `number`, from 1, of `parts` of an output."""

    output: Path
    number: int
    parts: int

    @property
    def path(self) -> Path:
        """Where it lies."""
        suffix = LINES[0] if writes_lines(self.output) else ".npz"
        return folder_of(self.output) / f"part-{self.number:05d}-of-{self.parts:05d}{suffix}"

    @property
    def note(self) -> Path:
        """Where its note lies."""
        return self.path.with_suffix(".json")

    def __str__(self) -> str:
        return f"part {self.number} of {self.parts}"


@dataclass(slots=True)
class Draft:
    """A part that is being written at `path`, and how many instances it has come to hold."""

    path: Path
    instances: int = 0
    skipped: int = 0


def folder_of(output: Path) -> Path:
    """Where the parts of an output lie."""
    return output.with_name(f"{output.name}.parts")


@contextmanager
def writing_part(part: Part, run_key: RunKey, section: Section) -> Iterator[Draft]:
    """A part to write; it is there, with its note, when the block ends well, else not at all.

    Several processes that write the same part at the same time do no harm. Errors: AbwError.
    """
    folder = folder_of(part.output)
    with writing(folder):
        folder.mkdir(exist_ok=True)
    unique = f"{socket.gethostname()}-{os.getpid()}-{part.path.name}"
    draft = Draft(folder / f"{DRAFT}{unique}")
    try:
        yield draft
        about = {
            "schema_version": SCHEMA_VERSION,
            "whose": run_key,
            "section": asdict(section),
            "instances": draft.instances,
            "skipped": draft.skipped,
            "bytes": draft.path.stat().st_size,
            "xxh64": file_hash(draft.path),
        }
        with writing(part.path):
            part.note.unlink(missing_ok=True)  # of other bytes
            draft.path.replace(part.path)
        write_json(part.note, about)
    except BaseException:
        draft.path.unlink(missing_ok=True)
        raise


def writers(part: Part) -> list[str]:
    """Who writes a part just now, or was killed while it did: machines and processes."""
    head, tail = f"{folder_of(part.output)}/{DRAFT}", f"-{part.path.name}"
    drafts = folder_of(part.output).glob(f"{DRAFT}*{tail}")
    names = (str(path).removeprefix(head).removesuffix(tail) for path in sorted(drafts))
    return [f"process {pid} on {host}" for host, _, pid in (name.rpartition("-") for name in names)]


def is_done(part: Part, run_key: RunKey) -> bool:
    """Whether a part is there, whole. Errors: AbwError where it is another run's."""
    if not part.note.is_file():
        return False
    note = _read(part)
    _require_same(part, note["whose"], run_key)
    return _damage(part, note) == ""


def refuse_others(output: Path, run_key: RunKey, parts: int) -> None:
    """Raise AbwError where the folder of an output's parts holds one of another run, or of other sections."""
    for part in found(output):
        if part.parts != parts:
            message = f"{folder_of(output)} holds {part}, and this run has {parts} parts"
            raise AbwError(message, hint=_ANOTHER.format(folder_of(output)))
        _require_same(part, _read(part)["whose"], run_key)


_ANOTHER = "remove that folder (rm -r {}), or name another output"


def found(output: Path) -> list[Part]:
    """The parts of an output that have a note, by their numbers."""
    folder = folder_of(output)
    names = [_NAME.fullmatch(path.name) for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(
        (Part(output, int(name[1]), int(name[2])) for name in names if name),
        key=lambda part: (part.parts, part.number),
    )


def join(output: Path, run_key: RunKey | None = None) -> dict[str, Any]:
    """Put the parts of an output together, in their order, byte for byte what one run of all writes.

    Returns how many `parts`, `instances` and `skipped` there are. Errors: AbwError that names the parts which
    are missing, damaged, or of another run (than `run_key`, or the first part).
    """
    there = found(output)
    if not there:
        hint = f"abw run SPEC --shard 1/N --output {output}"
        raise AbwError(f"{folder_of(output)} holds no parts of {output.name}", hint=hint)
    parts = [Part(output, number, there[0].parts) for number in range(1, there[0].parts + 1)]
    if others := [part for part in there if part.parts != there[0].parts]:
        message = f"{folder_of(output)} holds {there[0]} and {others[0]}: two runs"
        raise AbwError(message, hint="remove the files of the one you do not want")
    if missing := [part for part in parts if part not in there]:
        hint = f"abw run SPEC --shard {missing[0].number}/{len(parts)} --output {output}"
        raise AbwError(f"{_named(missing)} missing from {folder_of(output)}", hint=hint)
    notes = [_read(part) for part in parts]
    for part, note in zip(parts, notes, strict=True):
        _require_same(part, note["whose"], run_key or notes[0]["whose"])
    if damaged := [part for part, note in zip(parts, notes, strict=True) if _damage(part, note)]:
        hint = f"write it again: abw run SPEC --shard {damaged[0].number}/{len(parts)} --output {output}"
        why = _damage(damaged[0], notes[damaged[0].number - 1])
        raise AbwError(f"{_named(damaged)} damaged: {why}", hint=hint)
    _concatenate(output, parts)
    sums = {name: sum(note[name] for note in notes) for name in ("instances", "skipped")}
    return {"output": str(output), "parts": len(parts), **sums}


def discard(output: Path) -> None:
    """Remove the folder of an output's parts. Errors: AbwError."""
    with writing(folder_of(output)):
        shutil.rmtree(folder_of(output))


def _named(parts: Sequence[Part]) -> str:
    """Some parts for people, with the verb."""
    numbers = ", ".join(str(part.number) for part in parts[:10]) + (", …" if len(parts) > 10 else "")
    many = len(parts) > 1
    return f"part{'s' if many else ''} {numbers} of {parts[0].parts} {'are' if many else 'is'}"


def _read(part: Part) -> dict[str, Any]:
    """A part's note. Errors: AbwError where it is damaged."""
    note = read_json(part.note, "note")
    kinds = {"whose": dict, "section": dict, "instances": int, "skipped": int, "bytes": int, "xxh64": str}
    if any(not isinstance(note.get(name), kind) for name, kind in kinds.items()):
        message = f"note {part.note} is damaged, or of another version of abw"
        raise AbwError(message, hint="write the part again")
    return note


def _damage(part: Part, note: Mapping[str, Any]) -> str:
    """Say what is wrong with a part; '' for one that is as its note says."""
    if not part.path.is_file():
        return f"{part.path} is not there"
    size = part.path.stat().st_size
    if size != note["bytes"]:
        return f"{part.path} has {size} bytes, and {note['bytes']} were written"
    same = file_hash(part.path) == note["xxh64"]
    return "" if same else f"{part.path} holds other bytes than were written"


def _require_same(part: Part, run_key: RunKey, wanted: RunKey) -> None:
    """Raise AbwError for a part that is another run's, and say what differs."""
    differs = [key for key in {**wanted, **run_key} if run_key.get(key) != wanted.get(key)]
    if not differs:
        return
    shown = [f"{key} ({_short(run_key.get(key))}, not {_short(wanted.get(key))})" for key in differs]
    message = f"{part} ({part.path}) is of another run: it differs in {', '.join(shown)}"
    raise AbwError(message, hint=_ANOTHER.format(folder_of(part.output)))


def _short(value: object) -> str:
    """A value for people; of a digest or hash its beginning."""
    text = str(value)
    return text[:8] if re.fullmatch("[0-9a-f]{16}|[0-9a-f]{64}", text) else text[:40]


def _concatenate(output: Path, parts: Sequence[Part]) -> None:
    """Write an output of its parts, whole or not at all. Errors: AbwError."""
    if writes_lines(output):
        with writing(output), replacing(output, wait=False) as target:
            for part in parts:
                with part.path.open("rb") as source:
                    shutil.copyfileobj(source, target, 1 << 20)
        return
    with ArrayFile(output, ARRAYS[output.suffix]) as target_arrays:
        for part in parts:
            for name, stored in read_tensors(part.path).tensors.items():
                values = stored.read()
                ends = name.endswith(".offsets")
                if part is parts[0]:
                    target_arrays.add(name, values.dtype, values.shape[1:], ends=ends)
                target_arrays.append(name, np.diff(values) if ends else values)
