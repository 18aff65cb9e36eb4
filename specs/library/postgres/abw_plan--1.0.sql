-- The model's cost of a query, which is planned and not run; microseconds of planning, of writing the plan as
-- JSON, and of the model.
CREATE FUNCTION abw_cost(query text, OUT cost float8, OUT plan_us float8, OUT explain_us float8, OUT model_us float8)
    AS 'MODULE_PATHNAME' LANGUAGE C STRICT;

-- The cheapest of several ways to plan a query: each is a list of settings to be switched off, as in
-- ARRAY['', 'enable_nestloop', 'enable_hashjoin enable_seqscan'].
CREATE FUNCTION abw_choose(query text, hints text[], OUT hint text, OUT cost float8) LANGUAGE plpgsql AS $$
DECLARE
    candidate text;
    setting text;
    found float8;
BEGIN
    FOREACH candidate IN ARRAY hints LOOP
        FOREACH setting IN ARRAY string_to_array(candidate, ' ') LOOP
            PERFORM set_config(setting, 'off', true);
        END LOOP;
        SELECT c.cost INTO found FROM abw_cost(query) c;
        FOREACH setting IN ARRAY string_to_array(candidate, ' ') LOOP
            PERFORM set_config(setting, 'on', true);
        END LOOP;
        IF cost IS NULL OR found < cost THEN
            hint := candidate;
            cost := found;
        END IF;
    END LOOP;
END $$;
