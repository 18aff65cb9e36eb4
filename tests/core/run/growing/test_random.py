"""Random models that grow: as a second grower has them, with the reference's values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abw.core.base.errors import AbwError
from abw.core.exec.agreement import compare
from abw.core.exec.params import init_params
from abw.core.exec.reference import ReferenceExecutor
from abw.core.plan.check import check_plan
from abw.core.policy.check import check_schedule
from abw.core.run.growing.recheck import recheck
from tests.core.run.growing.drafts import Draft
from tests.core.run.growing.runs import (
    check_as_the_oracle,
    check_equal_nodes,
    grown,
    opened,
    ready,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), seed=st.integers(0, 100))
def test_random_sections_grow_as_the_oracle(random_folder: Path, data: st.DataObject, seed: int) -> None:
    spec = random_folder / "model.yaml"
    spec.write_text(Draft(data).text())
    try:
        workload = opened(spec)
    except AbwError as refused:
        told = (
            "known only",
            "decided only",
            "never adds anything",
            "wait for each other",
            "waits for itself",
        )
        assert any(words in str(refused) for words in told), str(refused)
        return
    params = init_params(workload.network, seed)
    made = grown(workload, ready(workload, "reference", params))
    check_as_the_oracle(workload, made, params)
    for planned in made.pieces:
        check_schedule(planned.graph.dag, planned.schedule)
        check_plan(planned.graph, planned)
    check_schedule(made.graph.dag, made.schedule)
    np.testing.assert_array_equal(made.plan.rows, made.pieces[-1].rows)
    check_equal_nodes(workload, ready(workload, "reference", params))


@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), seed=st.integers(0, 100))
def test_random_sections_on_the_processor(random_folder: Path, data: st.DataObject, seed: int) -> None:
    """What decides in single precision may decide otherwise; but only within the tolerance."""
    spec = random_folder / "model.yaml"
    spec.write_text(Draft(data).text())
    try:
        workload = opened(spec)
    except AbwError:
        return
    params = init_params(workload.network, seed)
    made = grown(workload, ready(workload, "cpu", params))
    reference = ReferenceExecutor()
    reference.prepare(workload.network, params)
    expected = reference.run_graph(made.graph)
    assert max(d.error for d in compare(made.result, expected)) < 1e-4
    assert workload.growing is not None
    recheck(workload.growing.growth_model, made.instances, expected, 1e-4, "cpu", made.picks)
    check_equal_nodes(workload, ready(workload, "cpu", params, 1))
