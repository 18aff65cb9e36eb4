"""`abw explain` as a user meets it."""

from __future__ import annotations

from tests.cli.conftest import Abw

FLAGS = ("specs/lattice.yaml", "--batch", "16", "--set", "hidden=8", "--policy", "agenda")
SMALL = ("--set", "hidden=8", "--policy", "agenda")


def test_a_spec_on_one_screen(abw: Abw) -> None:
    done = abw("explain", *FLAGS)
    assert done.code == 0, done.err
    found = abw("explain", *FLAGS, "--json").json()
    assert len(done.out.splitlines()) <= 40
    assert f"{found['batches']} batches" in done.out
    assert f"{found['batches'] - found['lower_bound']} batches too many" in done.out
    reason = found["reasons"][0]
    assert f"{reason['batches']} × {reason['type']} did not wait for {reason['waits_for']}" in done.out
    held = found["held"][reason["example"]]
    assert f"batch {held['step']}: {held['type']} {held['late'][-1]['number']} of instance" in done.out
    assert f"{len(found['alone'])} batches have one row" in done.out


def test_many_types_fit_a_screen_too(abw: Abw) -> None:
    done = abw("explain", *FLAGS, "--granularity", "op")
    found = abw("explain", *FLAGS, "--granularity", "op", "--json").json()
    assert len(done.out.splitlines()) <= 40
    rest = sorted(found["types"], key=lambda t: -t["not_free"])[12:]
    (row,) = [line.split() for line in done.out.splitlines() if "other types" in line]
    assert row[0] == str(len(rest))
    assert row[5] == str(sum(t["batches"] for t in rest))


def test_a_schedule_at_the_bound_has_nothing_to_explain(abw: Abw) -> None:
    done = abw("explain", "specs/treelstm.yaml", "--policy", "sufficient")
    assert "Every batch was needed" in done.out
    assert "too many:" not in done.out


def test_what_groups_of_types_are_proven_to_need(abw: Abw) -> None:
    found, said = abw("explain", *FLAGS, "--json").json(), abw("explain", *FLAGS).out
    bound = found["tight_bound"]
    gained = [group["at_least"] - group["lower_bound"] for group in bound["groups"]]
    assert gained == sorted(gained, reverse=True) and min(gained) > 0
    assert bound["at_least"] == found["lower_bound"] + sum(gained) < found["batches"]
    assert f"{sum(gained)} of them are needed: no schedule has fewer than {bound['at_least']} batches" in said
    assert f"need {bound['groups'][0]['at_least']} batches together" in said
    best = abw("explain", *FLAGS[:-1], "exact")
    assert f"The schedule is optimal: no schedule has fewer than {bound['at_least']} batches" in best.out


def test_a_run_by_its_number_or_the_latest(abw: Abw) -> None:
    assert "there are no runs" in abw("explain").err
    assert abw("run", *FLAGS).code == 0
    assert abw("explain", "1", "--json").json() == abw("explain", "--json").json()
    assert "policy agenda" in abw("explain").out
    assert "policy depth" in abw("explain", "1", "--policy", "depth").out
    wrong = abw("explain", "1", "--mini-batch", "99")
    assert wrong.code == 1
    assert "numbers here" in wrong.err


def test_only_what_is_better_is_recommended(abw: Abw) -> None:
    for name, others in (("depth", ["agenda: ", "critical: "]), ("agenda", ["critical: "]), ("critical", [])):
        said = abw("explain", *FLAGS[:-1], name).out.split("Fewer batches: ")[1]
        assert [other for other in ("depth: ", "agenda: ", "critical: ") if other in said] == others
    best = abw("explain", "specs/treelstm.yaml", "--policy", "sufficient").out
    assert "Fewer batches" not in best


def test_a_learned_policy_is_used_as_run_does(abw: Abw) -> None:
    flags = ("specs/fig1.yaml", "--set", "hidden=8", "--json")
    found = abw("explain", *flags).json()
    assert found["policy"] == "auto"
    assert found["batches"] == abw("run", *flags).json()["batches"]
    assert abw("explain", "specs/fig1.yaml", "--policy", "fms").code == 2


def test_of_what_grows_the_rounds_what_was_cut_and_the_time(abw: Abw) -> None:
    flags = (
        "specs/stackrnn.yaml",
        "--limit",
        "12",
        "--batch",
        "6",
        "--set",
        "hidden=8",
        "--policy",
        "agenda",
    )
    done = abw("explain", *flags, "--mini-batch", "1")
    found = abw("explain", *flags, "--mini-batch", "1", "--json").json()["growth"]
    growing, rounds = found["growing"], found["rounds"]
    assert len(growing) == rounds == len(found["nodes"]) - 2
    assert growing == sorted(growing, reverse=True) and growing[0] == found["instances"] == 6
    assert min(found["longest"]) >= 6  # counted from the data's first
    assert f"Grown in {rounds} rounds, the last with work for " in done.out
    assert "Still growing: instances" in done.out
    assert "Rounds are compiled" in done.out
    assert sum(found["time"]["by_plan"]) <= found["time"]["kernels"] * 1.001
    assert len(found["time"]["by_plan"]) == rounds + 1  # what is given, then every round


def test_of_a_run_that_grew_the_rounds(abw: Abw) -> None:
    assert abw("run", "specs/beam.yaml", "--limit", "3", *SMALL).code == 0
    done, found = abw("explain"), abw("explain", "--json").json()["growth"]
    assert "Grown in 20 rounds, the last with work for 3 instances of 3" in done.out
    assert "Time on" not in done.out and found["time"] is None
    assert abw("run", "specs/greedy.yaml", "--limit", "3", *SMALL).code == 0
    said = "reached `most: 20` of step and would have grown more, from round 20 on: instances 0, 1, 2."
    assert said in abw("explain").out
    assert abw("run", *FLAGS).code == 0
    assert abw("explain", "--json").json()["growth"] is None
