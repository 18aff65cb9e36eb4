"""docs/reference.md, made from the program's own tables: `python -m abw.core.tools.reference`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from abw.core.exec.registry import EXECUTORS
from abw.core.ir.formats import SCHEMAS
from abw.core.ir.operations import OPERATIONS
from abw.core.ir.schema import Schema
from abw.core.policy.registry import LEARNED
from abw.core.policy.registry import SUMMARIES as POLICIES
from abw.core.run.learning import SUMMARIES as ENCODINGS
from abw.core.run.presets import PRESETS
from abw.core.spec.cells import equations
from abw.core.spec.jsonschema.document import model_schema
from abw.core.spec.models import sources, weights
from abw.core.spec.models.growing import clauses

_HEAD = (
    "# Reference\n\n"
    "All keys of spec files, operations, data formats, policies, executors and presets. [spec.md](spec.md) "
    "explains the language, [data.md](data.md) the files, [policies.md](policies.md) the policies; "
    "[cli.md](cli.md) lists commands and their options. This page is made from the tables that abw itself "
    "uses: `python -m abw.core.tools.reference > docs/reference.md`.\n"
)


def reference() -> str:
    """The page, as Markdown."""
    return "\n".join([_HEAD, *_keys(), *_grammars(), *_operations(), *_formats(), *_names()])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
    yield ""


def _keys() -> Iterator[str]:
    schema = model_schema()
    defs = schema["$defs"]
    yield "## Kinds of values\n"
    names = ("size", "shape", "param", "constant", "source")
    yield from _table(("written below as", "is"), ((name, defs[name]["description"]) for name in names))
    yield "`{NAME: size}` is a mapping from names to sizes. Keys in bold must be there.\n"
    yield "## Keys of a model\n"
    yield from _section("the file", defs["model"], defs)
    yield "## Keys of a cell\n"
    yield from _section("the file", defs["cell"], defs)
    yield "### a param that is a mapping\n"
    yield from _section("", defs["param"]["anyOf"][-1], defs)
    yield "### a constant that is a mapping\n"
    yield from _section("", defs["constant"]["anyOf"][-1], defs)


def _section(title: str, schema: dict[str, Any], defs: dict[str, Any]) -> Iterator[str]:
    """A table of an object's keys, then a section for each of those that are objects with keys."""
    if title:
        yield f"### {title}\n"
        yield schema["description"] + "\n"
    keys = schema["properties"]
    rows = []
    for key, value in keys.items():
        name = f"**`{key}`**" if key in schema.get("required", ()) else f"`{key}`"
        default = f"`{json.dumps(value['default'])}`" if "default" in value else ""
        rows.append((name, _kind(value), default, _description(value, defs)))
    yield from _table(("key", "value", "default", "meaning"), rows)
    for key, value in keys.items():
        for path, inner in _objects(key, value, defs):
            yield from _section(path, inner, defs)


def _objects(path: str, value: dict[str, Any], defs: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects with keys of their own that a value is, or is a mapping to."""
    for one in (value, *value.get("anyOf", ())):
        if "properties" in one:
            yield f"`{path}`", one
        members = one.get("additionalProperties")
        if isinstance(members, dict):
            target = members.get("$ref", "").removeprefix("#/$defs/")
            found = defs[target] if target in ("type", "growing") else members
            for inner in (found, *found.get("anyOf", ())):
                if "properties" in inner:
                    yield f"`{path}: {{NAME: …}}`", inner
        if one.get("items") == {"$ref": "#/$defs/clause"}:
            yield f"`{path}: [{{…}}, …]`", defs["clause"]


def _kind(value: dict[str, Any]) -> str:
    """The form of a value in a word or two."""
    if "$ref" in value:
        return str(value["$ref"]).removeprefix("#/$defs/")
    if "enum" in value:
        return ", ".join(f"`{name}`" for name in value["enum"])
    if "anyOf" in value:
        return " or ".join(_kind(one) for one in value["anyOf"])
    if isinstance(value["type"], list):
        return " or ".join(_kind({**value, "type": one}) for one in value["type"])
    match value["type"]:
        case "integer":
            return f"number from {value['minimum']}" if "minimum" in value else "number"
        case "number":
            return "number"
        case "boolean":
            return "true or false"
        case "array":
            return f"[{_kind(value['items'])}, …]"
        case "object":
            members = value.get("additionalProperties")
            if isinstance(members, dict) and "properties" not in members:
                return f"{{NAME: {_kind(members)}}}"
            return "mapping, below"
        case _:
            return "text"


def _description(value: dict[str, Any], defs: dict[str, Any]) -> str:
    if "description" in value:
        return str(value["description"])
    for one in value.get("anyOf", ()):
        if "properties" in one:
            return str(one["description"])
    return _description(defs[value["$ref"].removeprefix("#/$defs/")], defs)


def _grammars() -> Iterator[str]:
    yield "## Grammars\n"
    for title, module in (
        ("`equations` of a cell", equations),
        ("A source, and a type's `where`", sources),
        ("Conditions, values and decisions of a section `grow`", clauses),
        ("A value under `map` of `weights`", weights),
    ):
        text = (module.__doc__ or "").splitlines()
        rules = [line.strip() for line in text if " = " in line]
        yield f"### {title}\n\n```\n" + "\n".join(rules) + "\n```\n"


def _operations() -> Iterator[str]:
    yield "## Operations\n"
    yield (
        "Shapes as in a cell's `inputs`: `n` is a vector, `[m, n]` a matrix, `any` any of them, the same "
        "throughout; of element-wise operations also shapes that NumPy would broadcast to it.\n"
    )
    forms = (form for operation in OPERATIONS.values() for form in operation.forms)
    rows = ((f"`{form.text}`", ", ".join(form.args), form.result, form.meaning) for form in forms)
    yield from _table(("written", "of", "gives", "is"), rows)


def _formats() -> Iterator[str]:
    yield "## Data formats\n"
    yield (
        "Format `json` has the kinds, links and fields of its data. In all formats there is the kind "
        "`instance`; its link named as a kind or group leads to all of that kind in order, and every other "
        "vertex has the link `instance`. The fields `index` and `coin` are on every vertex. How each file is "
        "written: [data.md](data.md).\n"
    )
    for name in sorted(SCHEMAS):
        yield from _format(SCHEMAS[name])


def _format(schema: Schema) -> Iterator[str]:
    own = [kind for kind in schema.kinds if kind != "instance"]
    yield f"### `{schema.format}`\n"
    groups = "; ".join(f"group `{g}`: {_kinds(schema, schema.groups[g])}" for g in schema.groups)
    yield "Kinds: " + ", ".join(f"`{kind}`" for kind in own) + (f"; {groups}" if groups else "") + ".\n"
    common = {"instance", *own, *schema.groups}
    links = [
        (f"`{name}`", _kinds(schema, kinds), ("several " if link.many else "") + _kinds(schema, to), link.doc)
        for name, link in schema.links.items()
        if name not in common
        for to in dict.fromkeys(link.by_kind.get(kind, link.target) for kind in own)
        if (kinds := frozenset(k for k in link.source if link.by_kind.get(k, link.target) == to))
    ]
    yield from _table(("link", "from", "to", "leads to"), links)
    fields = (
        (f"`{name}`", _kinds(schema, item.kinds), "text" if item.text else "number", item.doc)
        for name, item in schema.fields.items()
        if name not in ("index", "coin")
    )
    yield from _table(("field", "on", "is", "meaning"), fields)


def _kinds(schema: Schema, kinds: frozenset[str]) -> str:
    """The kinds in the schema's order."""
    return ", ".join(f"`{kind}`" for kind in schema.kinds if kind in kinds)


def _names() -> Iterator[str]:
    yield "## Policies\n"
    yield from _table(("`--policy`", "picks as the type of the next batch"), _coded(POLICIES))
    yield "## Encodings of a learned policy's states\n"
    yield from _table(("`--encoding`", "a state is"), _coded(ENCODINGS))
    yield "## Executors\n"
    yield from _table(("`--executor`", "is"), _coded({n: e.summary for n, e in EXECUTORS.items()}))
    yield "## Presets\n"
    rows = []
    for name, p in PRESETS.items():
        encoding = p.encoding if p.policy == LEARNED else ""
        rows.append((f"`{name}`", p.policy, encoding, p.granularity, p.layout, p.executor, p.summary))
    head = ("`--preset`", "policy", "encoding", "granularity", "layout", "executor", "is")
    yield from _table(head, rows)


def _coded(summaries: Mapping[Any, str]) -> Iterator[tuple[str, str]]:
    for name, summary in summaries.items():
        yield f"`{name}`", summary


if __name__ == "__main__":
    print(reference().rstrip())
