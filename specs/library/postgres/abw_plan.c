/* A cost model of query plans inside PostgreSQL: abw_cost(query) plans a query, does not run it, and asks the model
 * that is linked in.
 *
 *     abw build bao --weights bao.safetensors -o libplan.so
 *     make && make install                          # PostgreSQL 15 or later, and its headers
 *     psql -c 'CREATE EXTENSION abw_plan' -c "SELECT * FROM abw_cost('SELECT ...')"
 */
#include "postgres.h"

#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "executor/executor.h"
#include "funcapi.h"
#include "portability/instr_time.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "libplan.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(abw_cost);

/* A server process has one thread: one workspace. */
static abw_workspace *space;

static void load_model(void) {
    int error;
    abw_model *model = abw_load(NULL, &error);
    if (!model) ereport(ERROR, errmsg("abw: %s", abw_error(error)));
    space = abw_new_workspace(model);
    if (!space) {
        abw_free(model);
        ereport(ERROR, errcode(ERRCODE_OUT_OF_MEMORY), errmsg("abw: %s", abw_error(ABW_MEMORY)));
    }
}

/* The plan of a query, as the planner's settings make it now. */
static PlannedStmt *planned(const char *query) {
    List *statements = pg_parse_query(query), *rewritten;
    if (list_length(statements) != 1)
        ereport(ERROR, errcode(ERRCODE_SYNTAX_ERROR), errmsg("abw_cost takes one statement"));
    rewritten = pg_analyze_and_rewrite_fixedparams(linitial_node(RawStmt, statements), query, NULL, 0, NULL);
    if (list_length(rewritten) != 1 || linitial_node(Query, rewritten)->commandType == CMD_UTILITY)
        ereport(ERROR, errcode(ERRCODE_FEATURE_NOT_SUPPORTED), errmsg("abw_cost takes a statement that is planned"));
    return pg_plan_query(linitial_node(Query, rewritten), query, CURSOR_OPT_PARALLEL_OK, NULL);
}

/* The plan as EXPLAIN (FORMAT JSON) writes it. */
static StringInfo explained(PlannedStmt *plan, const char *query) {
    ExplainState *state = NewExplainState();
    QueryDesc *desc;
    state->costs = true;
    state->format = EXPLAIN_FORMAT_JSON;
    desc = CreateQueryDesc(plan, query, GetActiveSnapshot(), InvalidSnapshot, None_Receiver, NULL, NULL, 0);
    ExecutorStart(desc, EXEC_FLAG_EXPLAIN_ONLY);
    ExplainBeginOutput(state);
    ExplainOpenGroup("Query", NULL, true, state);
    ExplainPrintPlan(state, desc);
    ExplainCloseGroup("Query", NULL, true, state);
    ExplainEndOutput(state);
    ExecutorEnd(desc);
    FreeQueryDesc(desc);
    return state->str;
}

/* The model's outputs of a query's first value, and the microseconds of planning, explaining and answering. */
Datum abw_cost(PG_FUNCTION_ARGS) {
    const char *query = text_to_cstring(PG_GETARG_TEXT_PP(0));
    instr_time begin, end;
    double spent[3];
    PlannedStmt *plan;
    StringInfo text = NULL;
    abw_values found;
    TupleDesc row;
    Datum values[4];
    bool nulls[4] = {false};
    int error = ABW_OK;

    if (get_call_result_type(fcinfo, NULL, &row) != TYPEFUNC_COMPOSITE) elog(ERROR, "abw_cost returns a row");
    if (!space) load_model();
    INSTR_TIME_SET_CURRENT(begin);
    plan = planned(query);
    for (int step = 0; step < 3; step++) {
        if (step == 1) text = explained(plan, query);
        if (step == 2) error = abw_answer(space, text->data, (size_t)text->len, 1);
        INSTR_TIME_SET_CURRENT(end);
        INSTR_TIME_SUBTRACT(end, begin);
        spent[step] = 1e6 * INSTR_TIME_GET_DOUBLE(end);
        INSTR_TIME_SET_CURRENT(begin);
    }
    if (!error) error = abw_output(space, 0, &found);
    if (error || !found.count) ereport(ERROR, errmsg("abw: %s", abw_error(error)), errdetail("%s", text->data));
    values[0] = Float8GetDatum(found.values[0]);
    for (int step = 0; step < 3; step++) values[step + 1] = Float8GetDatum(spent[step]);
    PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(row), values, nulls)));
}
