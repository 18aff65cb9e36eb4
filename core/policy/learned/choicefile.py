"""The file of a policy of any kind, read: a chosen one only where all that it says can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from abw.core.base.files import read_json
from abw.core.policy.learned.choice import VERSION, ChosenPolicy, Held, Tried, is_fsm
from abw.core.policy.learned.document import (
    WrongError,
    count,
    number,
    of,
    refused,
    require_format,
    said,
    texts,
)
from abw.core.policy.learned.fsm import VERSION as FSM
from abw.core.policy.learned.fsm import FsmPolicy
from abw.core.policy.learned.policyfile import origin_in, policy_of
from abw.core.policy.learned.states import ENCODINGS
from abw.core.policy.registry import CHOSEN, LEARNED, NAMES

# What candidates are called.
KNOWN = {*NAMES, *(f"{LEARNED}-{encoding}" for encoding in ENCODINGS)} - {LEARNED, CHOSEN}


def read_any(path: Path) -> tuple[FsmPolicy | ChosenPolicy, Mapping[str, Any]]:
    """The policy of a file, learned or chosen, and what it was learned from. Errors: AbwError, saying why."""
    return any_policy_of(read_json(path, "policy"), f"policy {path}")


def any_policy_of(
    document: dict[str, Any], called: str = "policy"
) -> tuple[FsmPolicy | ChosenPolicy, Mapping[str, Any]]:
    """The policy that `to_json` of either kind wrote, and what it was learned from, as `policy_of` says.

    Errors: AbwError with the place in the document and what is wrong there; `called` is how it begins.
    """
    require_format(document, called, FSM, VERSION)
    if document["version"] == FSM:
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
    found = Held(**counts, least=number(held, "least", where, least=0.0), apart=held["apart"])
    tried = tuple(_tried(entry, f"tried[{n}]") for n, entry in enumerate(of(document, "tried", list)))
    seconds = number(document, "seconds", least=0.0)
    chosen = ChosenPolicy(types, found, tried, fsm, count(document, "seed"), seconds)
    if not any(t.quick for t in chosen.able):
        raise WrongError("tried: there is neither a rule among them nor the FSM that is here")
    return chosen


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
        refused=of(entry, "refused", str, where) if entry.get("refused") is not None else None,
    )


def _only(found: dict[str, Any], kind: type[Any], where: str) -> None:
    if unknown := found.keys() - {f.name for f in fields(kind)}:
        raise WrongError(f"{where}: {said(min(unknown))} has no meaning")
