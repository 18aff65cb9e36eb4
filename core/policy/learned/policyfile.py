"""The file of a policy, learned or chosen, read: a policy only where all that it says can be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.base.files import read_json
from abw.core.policy.learned.choice import VERSION as CHOICE
from abw.core.policy.learned.choice import WEIGHED, ChosenPolicy, Held, Tried, is_fsm
from abw.core.policy.learned.fsm import FORMAT, VERSION, FsmPolicy, Training
from abw.core.policy.learned.states import ENCODINGS, Ints, Table, add, find, new_table, symbol_names
from abw.core.policy.registry import CHOSEN, LEARNED, NAMES
from abw.core.policy.rules.linear import FEATURES, Linear, weights_of

# The largest count that a policy can hold.
MOST = 2**31 - 1
HINT = "learn it anew: `abw learn SPEC`"
MOST_PHASES = 1000
# A policy has at most so many states times types: a table of 800 MB.
MOST_VALUES = 1 << 26
# What candidates are called.
KNOWN = {*NAMES, *WEIGHED, *(f"{LEARNED}-{encoding}" for encoding in ENCODINGS)} - {LEARNED, CHOSEN}


def read_any(path: Path) -> tuple[FsmPolicy | ChosenPolicy, Mapping[str, Any]]:
    """The policy of a file, learned or chosen, and what it was learned from. Errors: AbwError, saying why."""
    return any_policy_of(read_json(path, "policy"), f"policy {path}")


def any_policy_of(
    document: dict[str, Any], called: str = "policy"
) -> tuple[FsmPolicy | ChosenPolicy, Mapping[str, Any]]:
    """The policy that `to_json` of either kind wrote, and what it was learned from, as `policy_of` says.

    Errors: AbwError with the place in the document and what is wrong there; `called` is how it begins.
    """
    require_format(document, called, VERSION, CHOICE)
    if document["version"] == VERSION:
        return policy_of(document, called)
    fsm = None
    with refused(called):
        if document.get("policy") != CHOSEN:
            raise WrongError(f"policy must be '{CHOSEN}', not {said(document.get('policy'))}")
        if document.get("fsm") is not None:
            fsm = policy_of(of(document, "fsm", dict), f"{called}, fsm")[0]
        return _chosen(document, fsm), origin_in(document)


def _chosen(document: dict[str, Any], fsm: FsmPolicy | None) -> ChosenPolicy:
    types = tuple(texts(document, "types"))
    if fsm and fsm.types != types:
        raise WrongError("fsm.types: they are not the policy's")
    held, where = of(document, "held_out", dict), "held_out"
    _only(held, Held, where)
    counts = {name: count(held, name, where, least=1) for name in ("mini_batches", "nodes")}
    if not isinstance(held.get("apart"), bool):
        raise WrongError(f"{where}.apart must be true or false, not {said(held.get('apart'))}")
    edges = count(held, "edges", where) if "edges" in held else counts["nodes"]  # earlier files lack it
    found = Held(**counts, edges=edges, least=number(held, "least", where, least=0.0), apart=held["apart"])
    tried = tuple(_tried(entry, f"tried[{n}]") for n, entry in enumerate(of(document, "tried", list)))
    seconds = number(document, "seconds", least=0.0)
    linear = _linear(of(document, "linear", dict)) if "linear" in document else {}  # earlier files lack it
    chosen = ChosenPolicy(types, found, tried, fsm, count(document, "seed"), seconds, linear=linear)
    if not any(t.quick for t in chosen.able):
        raise WrongError("tried: there is neither a rule among them nor the FSM that is here")
    return chosen


def _linear(found: dict[str, Any]) -> dict[str, Linear]:
    """The linear rules with learned weights, by their names."""
    rules = {}
    for name in found:
        if name not in WEIGHED:
            raise WrongError(f"linear: no rule with learned weights is called {said(name)}")
        weights, where = of(found, name, dict, "linear"), f"linear.{name}"
        if unknown := weights.keys() - FEATURES.keys():
            raise WrongError(f"{where}: {said(min(unknown))} is no feature")
        rules[name] = Linear(weights_of({f: number(weights, f, where) for f in weights}))
    return rules


def _tried(entry: Any, where: str) -> Tried:  # noqa: ANN401 (whatever was read)
    policies = tuple(texts(entry, "policies", where))
    _only(entry, Tried, where)
    if not policies:
        raise WrongError(f"{where}.policies: there is none")
    for n, name in enumerate(policies):
        if name not in KNOWN:
            raise WrongError(f"{where}.policies[{n}]: no candidate is called {said(name)}")
        if is_fsm(name) and len(policies) > 1:
            raise WrongError(f"{where}.policies[{n}]: {name} goes with no other")
    judged = [entry.get(name) is not None for name in ("batches", "cost")]
    if judged[0] != judged[1]:
        raise WrongError(f"{where}.{'cost' if judged[0] else 'batches'} is missing")
    return Tried(
        policies,
        batches=count(entry, "batches", where) if judged[0] else None,
        cost=number(entry, "cost", where, least=0.0) if judged[0] else None,
        scheduling=number(entry, "scheduling", where, least=0.0),
        learning=number(entry, "learning", where, least=0.0),
        states=count(entry, "states", where) if entry.get("states") is not None else None,
        phases=count(entry, "phases", where) if entry.get("phases") is not None else None,
        refused=of(entry, "refused", str, where) if entry.get("refused") is not None else None,
    )


def _only(found: dict[str, Any], kind: type[Any], where: str) -> None:
    if unknown := found.keys() - {f.name for f in fields(kind)}:
        raise WrongError(f"{where}: {said(min(unknown))} has no meaning")


def policy_of(document: dict[str, Any], called: str = "policy") -> tuple[FsmPolicy, Mapping[str, Any]]:
    """The policy that `FsmPolicy.to_json` wrote, and its data's `path`, `sha256` and `instances`, if known.

    Errors: AbwError with the place in the document and what is wrong there; `called` is how it begins. Cost:
    some 10 us a state.
    """
    require_format(document, called, VERSION)
    with refused(called):
        return policy_in(document), origin_in(document)


def policy_in(document: dict[str, Any]) -> FsmPolicy:
    """The FSM of a document. Errors: WrongError."""
    types = tuple(texts(document, "types"))
    phases = count(document, "phases", most=MOST_PHASES)
    encoding = of(document, "encoding", str)
    if encoding not in ENCODINGS:
        raise WrongError(f"encoding: no encoding is called {said(encoding)}")
    code = {name: k for k, name in enumerate(symbol_names(types, phases))}
    if len(code) < len(types) + phases:
        raise WrongError("types: a name is there twice")
    table, action = _states(of(document, "states", list), types, code)
    return FsmPolicy(types, encoding, phases, table, action, _training(of(document, "training", dict)))


def _states(states: list[Any], types: tuple[str, ...], code: Mapping[str, int]) -> tuple[Table, Ints]:
    if len(states) * len(types) > MOST_VALUES:
        raise WrongError(f"states: {len(states)} are too many for {len(types)} types")
    lengths = [len(texts(s, "state", f"states[{n}]")) for n, s in enumerate(states)]
    table = new_table(len(types), len(states), sum(lengths))
    action = np.empty(len(states), np.int32)
    for s, entry in enumerate(states):
        where = f"states[{s}]"
        unknown = [name for name in entry["state"] if name not in code]
        if unknown:
            raise WrongError(f"{where}.state: {said(unknown[0])} is neither a type nor a phase")
        symbols = np.array([code[name] for name in entry["state"]], np.int32)
        found = find(table, symbols, len(symbols))
        if found >= 0:
            raise WrongError(f"{where}: the state {said(entry['state'])} occurs twice")
        add(table, symbols, len(symbols), -1 - found)
        chosen = of(entry, "action", str, where)
        if chosen not in types or chosen not in entry["state"]:
            raise WrongError(f"{where}.action: {said(chosen)} is not on the frontier {said(entry['state'])}")
        action[s] = code[chosen]
        visits = of(entry, "visits", dict, where)
        for name in of(entry, "q", dict, where):
            if name not in types:
                raise WrongError(f"{where}.q: {said(name)} is no type")
            table.value[s, code[name]] = number(entry["q"], name, f"{where}.q")
            table.visits[s, code[name]] = count(visits, name, f"{where}.visits")
    return table, action


def _training(found: dict[str, Any]) -> Training:
    where = "training"
    hyper = of(found, "hyper", dict, where)
    curve = []
    for n, point in enumerate(of(found, "curve", list, where)):
        if not isinstance(point, list) or len(point) != 2:
            raise WrongError(f"{where}.curve[{n}]: {said(point)} is no pair of numbers")
        both = {"0": point[0], "1": point[1]}
        curve.append((count(both, "0", f"{where}.curve[{n}]"), count(both, "1", f"{where}.curve[{n}]")))
    if unknown := found.keys() - {f.name for f in fields(Training)}:
        raise WrongError(f"{where}: {said(min(unknown))} has no meaning")
    counts = {f.name: count(found, f.name, where) for f in fields(Training) if f.type == "int"}
    return Training(
        **counts,
        reward=of(found, "reward", str, where),
        hyper={name: number(hyper, name, f"{where}.hyper") for name in hyper},
        curve=tuple(curve),
        seconds=number(found, "seconds", where),
    )


def origin_in(document: dict[str, Any]) -> Mapping[str, Any]:
    """What a policy was learned from, if known. Errors: WrongError."""
    if "data" not in document:
        return {}
    data, where = of(document, "data", dict), "data"
    place = {name: of(data, name, str, where) for name in ("path", "sha256")}
    return {**place, "instances": count(data, "instances", where)}


class WrongError(Exception):
    """What is wrong in a document, and where."""


@contextmanager
def refused(called: str) -> Iterator[None]:
    """Whatever is wrong in a document, as an AbwError that begins with what it is called."""
    try:
        yield
    except WrongError as error:
        raise AbwError(f"{called} is damaged: {error}", hint=HINT) from None


def require_format(document: dict[str, Any], called: str, *versions: int) -> None:
    """Raise AbwError unless it is a policy's document, of one of these versions."""
    if document.get("format") != FORMAT:
        raise AbwError(f'{called} is not a policy: it lacks "format": "{FORMAT}"')
    version = document.get("version")
    if version not in versions:
        known = f"version{'s' * (len(versions) > 1)} {' and '.join(map(str, versions))}"
        raise AbwError(f"{called} has version {said(version)}, this abw reads {known}", hint=HINT)


def of(found: Any, name: str, kind: type[Any], where: str = "") -> Any:  # noqa: ANN401 (of that kind)
    """A part of that kind: a text, a list or an object. Raises WrongError."""
    path = f"{where}.{name}" if where else name
    if not isinstance(found, dict) or name not in found:
        raise WrongError(f"{path} is missing")
    if not isinstance(found[name], kind):
        wanted = "a text" if kind is str else "a list" if kind is list else "an object"
        raise WrongError(f"{path} must be {wanted}, not {said(found[name])}")
    return found[name]


def texts(found: Any, name: str, where: str = "") -> list[str]:  # noqa: ANN401 (whatever was read)
    """A list of texts. Raises WrongError."""
    texts: list[str] = of(found, name, list, where)
    for n, text in enumerate(texts):
        if not isinstance(text, str):
            path = f"{where}.{name}" if where else name
            raise WrongError(f"{path}[{n}] must be a text, not {said(text)}")
    return texts


def count(found: Any, name: str, where: str = "", *, least: int = 0, most: int = MOST) -> int:  # noqa: ANN401
    """A whole number from `least` to `most`. Raises WrongError."""
    path, value = f"{where}.{name}" if where else name, found.get(name)
    if type(value) is not int or not least <= value <= most:
        raise WrongError(f"{path} must be a whole number from {least} to {most:,}, not {said(value)}")
    return value


def number(found: Any, name: str, where: str = "", *, least: float = -1e300) -> float:  # noqa: ANN401
    """A finite number, and not below `least`. Raises WrongError."""
    path, value = f"{where}.{name}" if where else name, found.get(name)
    if type(value) not in (int, float) or not abs(value) <= 1e300 or not math.isfinite(value):
        raise WrongError(f"{path} must be a finite number, not {said(value)}")
    if value < least:
        raise WrongError(f"{path} must be {least:g} at least, not {said(value)}")
    number: float = value
    return number


def said(value: object) -> str:
    """A value in a message, cut where it is long."""
    text = repr(value if not isinstance(value, int) or abs(value) < 10**30 else float("inf"))
    return text if len(text) <= 60 else text[:57] + "…"
