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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import IO, Any

import numpy as np
import xxhash

from abw.core.base.errors import AbwError
from abw.core.base.files import DRAFT, file_hash, read_json, replacing, write_json, writing
from abw.core.base.parallel import usable_cores
from abw.core.data.feed import Section
from abw.core.data.tensors import read_tensors
from abw.core.store.arrays import ArrayFile
from abw.core.store.outputs import ARRAYS, LINES, writes_lines

# Of the notes.
SCHEMA_VERSION = 3

# The list of parts that are read as one, in their folder.
MANIFEST = "manifest.json"
# The joined output while shares of it are written, in their folder.
JOINED = "joined"
# Bytes copied at once.
PIECE = 4 << 20

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
    are missing, damaged, or of another run (than `run_key`, or the first part). Cost: parts of lines are read
    once, hashed and written where they belong by all cores, unless `join_share` has written all of them.
    """
    parts, notes = _complete(output, run_key)
    if _all_joined(output, notes):
        with writing(output):
            for share in folder_of(output).glob(f"{JOINED}-*"):
                share.unlink()
            (folder_of(output) / JOINED).replace(output)
    elif writes_lines(output):
        with writing(output), replacing(output, wait=False) as target:
            _require_whole(parts, _placed(target, parts, notes))
    else:
        _require_whole(parts, [_damage(part, note) for part, note in zip(parts, notes, strict=True)])
        _concatenate(output, parts)
    return _report(output, notes)


def join_share(output: Path, number: int, shares: int) -> dict[str, Any]:
    """Write share `number`, from 1, of the parts of lines where they belong in a file that `join` takes.

    Processes on any machines write shares at the same time. Returns and raises what `join` does. Cost: the
    parts of the share are read once.
    """
    parts, notes = _complete(output, None)
    if not writes_lines(output):
        raise AbwError(f"{output.name} holds arrays, which one process joins", hint=f"abw join {output}")
    joined = folder_of(output) / JOINED
    with writing(joined), joined.open("ab"):
        os.truncate(joined, sum(note["bytes"] for note in notes))
    with writing(joined), joined.open("r+b", buffering=0) as target:
        _require_whole(parts, _placed(target, parts, notes, slice(number - 1, None, shares)))
    with writing(joined):
        _share_of(output, number, shares).write_text(_digest(notes))
    return _report(output, notes[number - 1 :: shares])


def _share_of(output: Path, number: int, shares: int) -> Path:
    return folder_of(output) / f"{JOINED}-{number}-of-{shares}"


def _digest(notes: Sequence[Mapping[str, Any]]) -> str:
    """What tells the parts of an output from all others."""
    return xxhash.xxh64("".join(note["xxh64"] for note in notes).encode()).hexdigest()


def _all_joined(output: Path, notes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all shares of these parts are written."""
    digest = _digest(notes)
    for first in folder_of(output).glob(f"{JOINED}-1-of-*"):
        shares = int(first.name.rpartition("-")[2])
        files = [_share_of(output, number, shares) for number in range(1, shares + 1)]
        if all(file.is_file() and file.read_text() == digest for file in files):
            return (folder_of(output) / JOINED).is_file()
    return False


def leave(output: Path, run_key: RunKey | None = None) -> dict[str, Any]:
    """Leave the parts of an output where they are, and write a manifest by which they are read as one.

    Returns and raises what `join` does; that a part has the bytes that were written is not looked at, only
    how many. Cost: reads the notes.
    """
    parts, notes = _complete(output, run_key)
    sized = [_wrong_size(part, note) for part, note in zip(parts, notes, strict=True)]
    _require_whole(parts, sized)
    names = ("instances", "skipped", "bytes", "xxh64")
    listed = [
        {"file": part.path.name, **{name: note[name] for name in names}}
        for part, note in zip(parts, notes, strict=True)
    ]
    document = {"schema_version": SCHEMA_VERSION, "output": output.name, "parts": listed}
    write_json(folder_of(output) / MANIFEST, document)
    return _report(output, notes)


def listed_parts(output: Path) -> list[Path]:
    """The files that hold an output, in their order: itself, or the parts that `leave` has listed.

    Errors: AbwError where there is neither, or a part is not there as it is listed.
    """
    manifest = folder_of(output) / MANIFEST
    if output.is_file():
        return [output]
    if not manifest.is_file():
        hint = f"abw join {output}, with --leave-parts to leave them" if folder_of(output).is_dir() else ""
        raise AbwError(f"there is no {output}, and no {manifest}", hint=hint)
    files = []
    try:
        for about in read_json(manifest, "manifest")["parts"]:
            files.append(manifest.with_name(about["file"]))
            size = files[-1].stat().st_size if files[-1].is_file() else -1
            if size != about["bytes"]:
                message = f"{files[-1]} is not there as {manifest} lists it"
                raise AbwError(message, hint="write the part again, and abw join --leave-parts")
    except (KeyError, TypeError) as error:
        raise AbwError(f"{manifest} is damaged: {error}", hint="abw join --leave-parts") from None
    return files


def _complete(output: Path, run_key: RunKey | None) -> tuple[list[Part], list[dict[str, Any]]]:
    """All parts of an output, with their notes. Errors: AbwError."""
    there = found(output)
    if not there:
        hint = f"abw run SPEC --shard 1/N --output {output}"
        raise AbwError(f"{folder_of(output)} holds no parts of {output.name}", hint=hint)
    parts = [Part(output, number, there[0].parts) for number in range(1, there[0].parts + 1)]
    if others := [part for part in there if part.parts != there[0].parts]:
        message = f"{folder_of(output)} holds {there[0]} and {others[0]}: two runs"
        raise AbwError(message, hint="remove the files of the one you do not want")
    if missing := sorted(set(parts) - set(there), key=lambda part: part.number):
        hint = f"abw run SPEC --shard {missing[0].number}/{len(parts)} --output {output}"
        raise AbwError(f"{_named(missing)} missing from {folder_of(output)}", hint=hint)
    notes = [_read(part) for part in parts]
    for part, note in zip(parts, notes, strict=True):
        _require_same(part, note["whose"], run_key or notes[0]["whose"])
    return parts, notes


def _require_whole(parts: Sequence[Part], wrong: Sequence[str]) -> None:
    """Raise AbwError that names damaged parts; `wrong`: what is wrong with each."""
    damaged = [part for part, why in zip(parts, wrong, strict=True) if why]
    if damaged:
        output = damaged[0].output
        hint = f"write it again: abw run SPEC --shard {damaged[0].number}/{len(parts)} --output {output}"
        raise AbwError(f"{_named(damaged)} damaged: {wrong[damaged[0].number - 1]}", hint=hint)


def _report(output: Path, notes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    sums = {name: sum(note[name] for note in notes) for name in ("instances", "skipped")}
    return {"output": str(output), "parts": len(notes), **sums}


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
    if wrong := _wrong_size(part, note):
        return wrong
    return "" if file_hash(part.path) == note["xxh64"] else _OTHER.format(part.path)


_OTHER = "{} holds other bytes than were written"


def _wrong_size(part: Part, note: Mapping[str, Any]) -> str:
    """Say what is wrong with a part's size; '' if nothing is."""
    if not part.path.is_file():
        return f"{part.path} is not there"
    size = part.path.stat().st_size
    return "" if size == note["bytes"] else f"{part.path} has {size} bytes, and {note['bytes']} were written"


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


def _placed(
    target: IO[bytes],
    parts: Sequence[Part],
    notes: Sequence[Mapping[str, Any]],
    share: slice = slice(None),
) -> list[str]:
    """Write a share of the parts where they belong, side by side; returns what is wrong with each, or ''."""
    begins = [0, *accumulate(note["bytes"] for note in notes)]
    one_at_a_time = Lock()

    def write(piece: bytes, at: int) -> None:
        if hasattr(os, "pwrite"):
            os.pwrite(target.fileno(), piece, at)
            return
        with one_at_a_time:
            target.seek(at)
            target.write(piece)

    def place(number: int) -> str:
        part, note, at = parts[number], notes[number], begins[number]
        if wrong := _wrong_size(part, note):
            return wrong
        hashed = xxhash.xxh64()
        with part.path.open("rb", buffering=0) as source:
            while piece := source.read(PIECE):
                hashed.update(piece)
                write(piece, at)
                at += len(piece)
        return "" if hashed.hexdigest() == note["xxh64"] else _OTHER.format(part.path)

    chosen, wrong = range(len(parts))[share], [""] * len(parts)
    with ThreadPoolExecutor(min(usable_cores(), len(parts))) as pool:
        for number, why in zip(chosen, pool.map(place, chosen), strict=True):
            wrong[number] = why
    return wrong


def _concatenate(output: Path, parts: Sequence[Part]) -> None:
    """Write an output of parts that are arrays, whole or not at all. Errors: AbwError."""
    with ArrayFile(output, ARRAYS[output.suffix]) as target_arrays:
        for part in parts:
            for name, stored in read_tensors(part.path).tensors.items():
                values = stored.read()
                ends = name.endswith(".offsets")
                if part is parts[0]:
                    target_arrays.add(name, values.dtype, values.shape[1:], ends=ends)
                target_arrays.append(name, np.diff(values) if ends else values)
