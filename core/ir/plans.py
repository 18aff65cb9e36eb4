"""What plans of PostgreSQL and DuckDB are made of: the operators that they name, and the keys that are read.

PostgreSQL: `ExplainNode` in explain.c, versions 12 to 18. DuckDB: physical operators, versions 1.0 to 1.4.
A kind or field is named as the operator or key, in lower case with hyphens: "Seq Scan" and SEQ_SCAN are
`seq-scan`, "Plan Rows" is `plan-rows`.
"""

from __future__ import annotations

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
