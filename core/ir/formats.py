"""The schemas of the data formats whose vertices are known before any data is read.

Of plans: the operators that PostgreSQL (`ExplainNode` in explain.c, versions 12 to 18) and DuckDB (physical
operators, versions 1.0 to 1.4) name, and the keys that are read. A kind or field is named as the operator or
key, in lower case with hyphens: "Seq Scan" and SEQ_SCAN are `seq-scan`, "Plan Rows" is `plan-rows`.
"""

from __future__ import annotations

from dataclasses import replace

from abw.core.base.errors import AbwError
from abw.core.ir.schema import FieldSchema, LinkSchema, Schema

_POSTGRES = {
    "scan": """Seq Scan,Sample Scan,Index Scan,Index Only Scan,Bitmap Index Scan,Bitmap Heap Scan,Tid Scan,
        Tid Range Scan,Subquery Scan,Function Scan,Table Function Scan,Values Scan,CTE Scan,
        Named Tuplestore Scan,WorkTable Scan,Foreign Scan,Custom Scan""",
    "join": "Nested Loop,Merge Join,Hash Join",
    "operator": """Result,ProjectSet,ModifyTable,Append,Merge Append,Recursive Union,BitmapAnd,BitmapOr,
        Gather,Gather Merge,Materialize,Memoize,Sort,Incremental Sort,Group,Aggregate,WindowAgg,Unique,SetOp,
        LockRows,Limit,Hash""",
}
_DUCKDB = {
    "scan": """SEQ_SCAN,TABLE_SCAN,INDEX_SCAN,COLUMN_DATA_SCAN,CHUNK_SCAN,DELIM_SCAN,DUMMY_SCAN,
        EXPRESSION_SCAN,EMPTY_RESULT,CTE_SCAN,RECURSIVE_CTE_SCAN,READ_CSV,READ_CSV_AUTO,READ_JSON,READ_PARQUET,
        PARQUET_SCAN,POSITIONAL_SCAN""",
    "join": """HASH_JOIN,NESTED_LOOP_JOIN,BLOCKWISE_NL_JOIN,PIECEWISE_MERGE_JOIN,IE_JOIN,ASOF_JOIN,DELIM_JOIN,
        LEFT_DELIM_JOIN,RIGHT_DELIM_JOIN,POSITIONAL_JOIN,CROSS_PRODUCT""",
    "operator": """FILTER,PROJECTION,HASH_GROUP_BY,PERFECT_HASH_GROUP_BY,PARTITIONED_AGGREGATE,
        UNGROUPED_AGGREGATE,SIMPLE_AGGREGATE,STREAMING_AGGREGATE,ORDER_BY,TOP_N,LIMIT,LIMIT_PERCENT,
        STREAMING_LIMIT,WINDOW,STREAMING_WINDOW,UNNEST,UNION,RECURSIVE_CTE,CTE,INOUT_FUNCTION,PIVOT,
        RESERVOIR_SAMPLE,STREAMING_SAMPLE,INSERT,BATCH_INSERT,UPDATE,DELETE_OPERATOR,CREATE_TABLE_AS,
        COPY_TO_FILE,BATCH_COPY_TO_FILE,RESULT_COLLECTOR,EXPLAIN_ANALYZE""",
}
# The kind of nodes whose operator is none of these, as in later versions and extensions.
OTHER = "other"
_NODE_NUMBERS = """Startup Cost,Total Cost,Plan Rows,Plan Width,Actual Startup Time,Actual Total Time,
    Actual Rows,Actual Loops,Parallel Aware,Workers Planned,Workers Launched,Rows Removed by Filter,
    Rows Removed by Join Filter,Rows Removed by Index Recheck,Heap Fetches,Shared Hit Blocks,
    Shared Read Blocks,Shared Dirtied Blocks,Shared Written Blocks,Local Hit Blocks,Local Read Blocks,
    Temp Read Blocks,Temp Written Blocks,Hash Buckets,Hash Batches,Peak Memory Usage,Sort Space Used,
    operator_timing,operator_cardinality,timing,cardinality,Estimated Cardinality"""
_PLAN_NUMBERS = "Planning Time,Execution Time,latency"
_TEXTS = """Parent Relationship,Relation Name,Alias,Schema,Index Name,CTE Name,Function Name,Subplan Name,
    Join Type,Strategy,Partial Mode,Scan Direction,Sort Method,Command,Table"""
# Keys that are often there and say nothing: known ones are passed over faster.
_SKIPPED = """Async Capable,Hash Cond,Filter,Index Cond,Merge Cond,Join Filter,Sort Key,Output,Inner Unique,
    Group Key,Recheck Cond,Cache Key,Cache Mode,Local Dirtied Blocks,Local Written Blocks,Sort Space Type,
    Original Hash Buckets,Original Hash Batches,Exact Heap Blocks,Lossy Heap Blocks,Single Copy,Disabled"""
TYPE_KEYS = ("Node Type", "operator_name", "operator_type", "name")


def _listed(names: str) -> tuple[str, ...]:
    return tuple(" ".join(name.split()) for name in names.split(","))


def slug(name: str) -> str:
    """The name of a kind or field by that of an operator or key."""
    return name.lower().replace(" ", "-").replace("_", "-")


# Operators as they are written, with the kind of each.
OPERATORS: dict[str, str] = {
    name: slug(name) for given in (_POSTGRES, _DUCKDB) for names in given.values() for name in _listed(names)
}
# By group its kinds.
GROUPS: dict[str, tuple[str, ...]] = {
    group: tuple(
        dict.fromkeys(slug(name) for given in (_POSTGRES, _DUCKDB) for name in _listed(given[group]))
    )
    for group in _POSTGRES
}
GROUPS["operator"] += (OTHER,)
# Keys of numbers on a node, of numbers on the whole plan, of texts on a node.
NODE_NUMBERS, PLAN_NUMBERS, TEXTS, SKIPPED = map(_listed, (_NODE_NUMBERS, _PLAN_NUMBERS, _TEXTS, _SKIPPED))


# The fields that every vertex has, which no data can give.
COMMON = frozenset({"index", "coin"})
TAKEN = "no link may be named as a kind of vertices or 'instance', no field 'index' or 'coin'"


def with_common(schema: Schema) -> Schema:
    """The schema with what every format has: kind and links of `instance`, fields `index` and `coin`.

    Errors: AbwError where the format's own names take one of these.
    """
    own = tuple(kind for kind in schema.kinds if kind != "instance")
    named = {kind: frozenset({kind}) for kind in own} | dict(schema.groups)
    links = {
        name: LinkSchema(frozenset({"instance"}), members, True, f"all of kind {name}, in order")
        for name, members in named.items()
    }
    links["instance"] = LinkSchema(frozenset(own), frozenset({"instance"}), doc="the instance it belongs to")
    kinds = frozenset({"instance", *own})
    fields = {
        "index": FieldSchema(kinds, doc="its number among the vertices of its kind in its instance"),
        "coin": FieldSchema(kinds, doc="0 or 1, by a hash of the instance's and the vertex's number"),
    }
    for taken in (*(links.keys() & schema.links.keys()), *(fields.keys() & schema.fields.keys())):
        raise AbwError(f"'{taken}' in the data is a name that every format gives already", hint=TAKEN)
    return replace(
        schema, kinds=("instance", *own), links={**schema.links, **links}, fields={**schema.fields, **fields}
    )


def own_fields(schema: Schema) -> set[str]:
    """The fields that the data itself has."""
    return schema.fields.keys() - COMMON


def own_links(schema: Schema) -> set[str]:
    """The links that the data itself has."""
    return schema.links.keys() - {"instance", *schema.kinds, *schema.groups, *schema.derived}


def _schema(
    name: str,
    kinds: str,
    groups: dict[str, str],
    links: dict[str, LinkSchema],
    fields: dict[str, FieldSchema],
) -> Schema:
    members = {group: frozenset(names.split()) for group, names in groups.items()}
    return with_common(Schema(name, tuple(kinds.split()), members, links, fields))


def _link(source: str, target: str, doc: str, many: bool = False) -> LinkSchema:
    return LinkSchema(frozenset(source.split()), frozenset(target.split()), many, doc)


def _within(doc: str, *groups: str) -> LinkSchema:
    """A link that stays within its group."""
    sets = [frozenset(group.split()) for group in groups]
    kinds = frozenset().union(*sets)
    return LinkSchema(kinds, kinds, False, doc, {kind: group for group in sets for kind in group})


def _field(kinds: str, doc: str, text: bool = False) -> FieldSchema:
    return FieldSchema(frozenset(kinds.split()), text, doc)


def _number(kinds: str, doc: str) -> FieldSchema:
    return FieldSchema(frozenset(kinds.split()), False, doc, 1)


_TREES = _schema(
    "trees",
    "leaf internal",
    {"node": "leaf internal"},
    {
        "left": _link("internal", "leaf internal", "the first child"),
        "right": _link("internal", "leaf internal", "the last child"),
        "children": _link("internal", "leaf internal", "the children, in order", many=True),
        "parent": _link("leaf internal", "internal", "the parent node"),
        "root": _link("instance", "leaf internal", "the node without a parent"),
    },
    {
        "label": _field("leaf internal", "the node's label", text=True),
        "word": _field("leaf", "the leaf's word", text=True),
    },
)

_LATTICE = _schema(
    "lattice",
    "position char-arc word-arc",
    {"arc": "char-arc word-arc"},
    {
        "from": _link("char-arc word-arc", "position", "the position after which the arc begins"),
        "to": _link("char-arc word-arc", "position", "the position at which it ends"),
        "arcs": _link("position", "char-arc word-arc", "the arcs that end here, in file order", many=True),
        "prev": _link("position", "position", "the previous position"),
        "next": _link("position", "position", "the next position"),
    },
    {
        "id": _field("char-arc word-arc", "the character's or word's number"),
        "tag": _field("position", "the position's tag"),
    },
)

# the link from a character to its word is `of`: `token` is the instance's link to all its tokens
_TAGS = _schema(
    "tags",
    "common rare char",
    {"token": "common rare"},
    {
        "prev": _within("the previous token or character", "common rare", "char"),
        "next": _within("the next token or character", "common rare", "char"),
        "chars": _link("rare", "char", "the bytes of a rare word, in order", many=True),
        "of": _link("char", "rare", "the word it spells"),
        "first": _link("instance", "common rare", "the first token"),
        "last": _link("instance", "common rare", "the last token"),
    },
    {
        "word": _field("common rare", "the token's word", text=True),
        "tag": _field("common rare", "the token's tag", text=True),
        "byte": _field("char", "0 to 255"),
    },
)

_PAIRS = _schema(
    "pairs",
    "source target",
    {},
    {
        "prev": _within("the previous word of the sentence", "source", "target"),
        "next": _within("the next word of the sentence", "source", "target"),
    },
    {"word": _field("source target", "the word", text=True)},
)

_WORDS = _schema(
    "words",
    "token",
    {},
    {
        "prev": _link("token", "token", "the previous token"),
        "next": _link("token", "token", "the next token"),
        "first": _link("instance", "token", "the first token"),
        "last": _link("instance", "token", "the last token"),
    },
    {"word": _field("token", "the token's word", text=True)},
)

_NODES = " ".join(kind for kinds in GROUPS.values() for kind in kinds)
_AS_NAMED = 'the key of that name: "Plan Rows" is `plan-rows`'
_PLANS = _schema(
    "plans",
    _NODES,
    {"node": _NODES, **{group: " ".join(kinds) for group, kinds in GROUPS.items()}},
    {
        "root": _link("instance", _NODES, "the node without a parent"),
        "parent": _link(_NODES, _NODES, "the node that reads this one's rows"),
        "children": _link(_NODES, _NODES, "the nodes whose rows it reads, in order", many=True),
        "left": _link(_NODES, _NODES, "the first child that is no InitPlan or SubPlan"),
        "right": _link(_NODES, _NODES, "the second of these"),
    },
    {
        "node-type": _field(
            _NODES, 'the operator as the plan names it: "Seq Scan" is of kind `seq-scan`', text=True
        ),
        "kind": _field(_NODES, "the number of its kind"),
        "child-count": _field(_NODES, "how many children it has that are no InitPlan or SubPlan"),
        **{slug(key): _field(_NODES, _AS_NAMED, text=True) for key in TEXTS},
        **{slug(key): _number(_NODES, _AS_NAMED) for key in NODE_NUMBERS},
        **{slug(key): _number("instance", _AS_NAMED) for key in PLAN_NUMBERS},
    },
)

SCHEMAS: dict[str, Schema] = {s.format: s for s in (_TREES, _LATTICE, _TAGS, _PAIRS, _WORDS, _PLANS)}
# What the file of arrays beside JSON lines may end in.
BESIDE = (".npz", ".safetensors")
# All formats; the schema of `json` is found in its data.
FORMATS: tuple[str, ...] = (*sorted(SCHEMAS), "json")
