"""What a server counts: as Prometheus reads it, and as pages and dashboard say."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.serve.metrics import METRICS, Histogram, Metrics, ModelMetrics


def test_prometheus_reads_what_is_written() -> None:
    parser = pytest.importorskip("prometheus_client.parser", reason="needs prometheus-client")
    metrics, model = Metrics(), ModelMetrics()
    metrics.count(200)
    metrics.count(200)
    metrics.count(429)
    for seconds in (1e-5, 3e-4, 100.0):
        model.took["answered"].add(seconds)
    model.answered, model.ready = 7, True
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in parser.text_string_to_metric_families(metrics.text({'a "b"\\\n': model, "c": model}))
        for sample in family.samples
    }
    name = ("model", 'a "b"\\\n')
    assert found["abw_requests_total", ("status", "200")] == 2
    assert found["abw_instances_total", name] == 7 and found["abw_ready", name] == 1
    answered = (name, ("result", "answered"))
    assert found["abw_request_seconds_count", *answered] == 3
    assert found["abw_request_seconds_bucket", ("le", "5e-05"), *answered] == 1
    assert found["abw_request_seconds_bucket", ("le", "+Inf"), *answered] == 3
    assert found["abw_request_seconds_sum", *answered] == pytest.approx(100.00031)


@given(st.lists(st.floats(0, 20)), st.lists(st.floats(1e-3, 10), min_size=1, unique=True).map(sorted))
def test_buckets_include_those_before_them(values: list[float], bounds: list[float]) -> None:
    histogram = Histogram(bounds)
    for value in values:
        histogram.add(value)
    *buckets, total, count = (line.split()[-1] for line in histogram.lines("x", 'a="b"'))
    assert list(map(int, buckets)) == [
        sum(value <= bound for value in values) for bound in (*bounds, float("inf"))
    ]
    assert int(count) == len(values) and float(total) == pytest.approx(sum(values))
    assert sum(histogram.counts[: bisect_left(bounds, 1.0)]) <= len(values)


def test_the_page_and_the_dashboard_name_all_and_nothing_else(root: Path) -> None:
    page = (root / "docs/serving.md").read_text()
    listed = page[page.index("### Metrics") : page.index("## Programs")]
    assert set(re.findall(r"`(abw_\w+)", listed)) == METRICS.keys()
    dashboard = json.loads((root / "docs/serving-dashboard.json").read_text())
    asked = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    named = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"abw_\w+", asked)}
    assert named == METRICS.keys()
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
