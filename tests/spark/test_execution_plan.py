"""The plan of a write in Spark: driver or tasks, jobs and parallelism, from numbers alone. No test here starts Spark."""

from __future__ import annotations

from typing import Any, Final

import pytest

from rli import SettingsError
from rli_spark.planning.execution_plan import Decision, ExecutionPlan, Limits, Place, Resources, Stage
from rli_spark.planning.parallelism import Parallelism
from rli_spark.planning.resources import cores_of_driver, local_cores, size_of_results

MEBIBYTE: Final = 1 << 20
GIBIBYTE: Final = 1 << 30

LAPTOP: Final = Resources(GIBIBYTE, local_cores=2, heap_bytes=GIBIBYTE)
CLUSTER: Final = Resources(GIBIBYTE)


def plan_of(resources: Resources, *, cores: int = 2, **choices: Any) -> ExecutionPlan:
    return ExecutionPlan(resources, Parallelism(lambda: cores), **choices)


def on_laptop(**resources: int) -> ExecutionPlan:
    return plan_of(Resources(**{"result_bytes": GIBIBYTE, "local_cores": 2, "heap_bytes": GIBIBYTE, **resources}))


def test_a_local_driver_reads_by_heap() -> None:
    plan = on_laptop()
    assert (plan.brought_bytes, plan.collected_bytes) == (16 * MEBIBYTE, GIBIBYTE // 12)
    assert plan.read_bytes == plan.held_bytes == GIBIBYTE // 4
    # Spark's heap holds several copies of collected rows.
    assert on_laptop(heap_bytes=120 * MEBIBYTE).collected_bytes == 10 * MEBIBYTE
    assert on_laptop(heap_bytes=64 * GIBIBYTE, result_bytes=64 * GIBIBYTE).collected_bytes == 256 * MEBIBYTE


def test_cluster_driver_reads_nothing() -> None:
    plan = plan_of(CLUSTER)
    assert (plan.brought_bytes, plan.collected_bytes, plan.read_bytes) == (16 * MEBIBYTE, 16 * MEBIBYTE, 0)
    assert plan.held_bytes == 32 * MEBIBYTE
    # Rows that come as Arrow may be more, where the driver's heap is known.
    known = plan_of(Resources(GIBIBYTE, heap_bytes=2 * GIBIBYTE))
    assert (known.brought_bytes, known.collected_bytes, known.held_bytes) == (
        16 * MEBIBYTE,
        64 * MEBIBYTE,
        128 * MEBIBYTE,
    )
    assert plan_of(Resources(GIBIBYTE, heap_bytes=360 * MEBIBYTE)).collected_bytes == 30 * MEBIBYTE
    # A local master with many cores is like a cluster: threads of one process would wait for each other.
    assert on_laptop(local_cores=9).read_bytes == 0


@pytest.mark.parametrize("resources", [LAPTOP, CLUSTER])
def test_a_setting_replaces_the_heap(resources: Resources) -> None:
    small = plan_of(Resources(GIBIBYTE, resources.local_cores, resources.heap_bytes, set_bytes=1_000))
    assert (small.brought_bytes, small.collected_bytes, small.held_bytes) == (1_000, 1_000, 1_000)
    none = plan_of(Resources(GIBIBYTE, resources.local_cores, resources.heap_bytes, set_bytes=0))
    assert (none.brought_bytes, none.collected_bytes, none.read_bytes) == (0, 0, 0)


def test_arrow_bounds_what_a_driver_reads() -> None:
    assert on_laptop(set_bytes=1 << 40).read_bytes == GIBIBYTE


@pytest.mark.parametrize("resources", [Resources(8 * MEBIBYTE, 2, GIBIBYTE), Resources(8 * MEBIBYTE)])
def test_rows_fit_job_results(resources: Resources) -> None:
    plan = plan_of(resources)
    assert (plan.brought_bytes, plan.collected_bytes) == (MEBIBYTE, MEBIBYTE)


def test_a_frame_grows_beyond_its_statistics() -> None:
    assert on_laptop(heap_bytes=384 * MEBIBYTE).collects(16 * MEBIBYTE)
    assert not on_laptop(heap_bytes=384 * MEBIBYTE).collects(16 * MEBIBYTE + 1)


def test_large_loads_are_left_to_tasks() -> None:
    plan = plan_of(LAPTOP, is_load=True)
    assert (plan.collected_bytes, plan.read_bytes) == (on_laptop().collected_bytes, 0)
    # Rows that have come are held, and do not go to tasks because keys have made them more.
    assert plan.held_bytes == on_laptop().held_bytes
    assert plan.request(10, 1_000, brought=2, files=0).place is Place.DRIVER
    assert plan.request(10, 1_000, brought=0, files=2).place is Place.TASKS


@pytest.mark.parametrize(
    ("resources", "size", "brought", "files", "place"),
    [
        (CLUSTER, 1_000, 2, 0, Place.DRIVER),
        (CLUSTER, 1_000, 1, 1, Place.TASKS),
        (LAPTOP, 1_000, 1, 1, Place.DRIVER),
        (LAPTOP, GIBIBYTE // 4, 0, 2, Place.DRIVER),
        (LAPTOP, GIBIBYTE // 4 + 1, 0, 2, Place.TASKS),
        (LAPTOP, 0, 0, 0, Place.TASKS),
    ],
)
def test_few_rows_stay_in_the_driver(resources: Resources, size: int, brought: int, files: int, place: Place) -> None:
    assert plan_of(resources).request(10, size, brought=brought, files=files).place is place


def test_a_driver_searches_some_files() -> None:
    plan = plan_of(LAPTOP)
    # To open a file is work, too: 128 of 1 MiB make as much as 256 MiB.
    assert plan.tag(1, 1, Place.DRIVER, jobs_before=2, searched=[MEBIBYTE] * 128).by_driver
    searched = plan.tag(1, 1, Place.DRIVER, jobs_before=2, searched=[MEBIBYTE] * 129)
    assert (searched.place, searched.jobs, searched.tasks, searched.files) == (Place.TASKS, 3, 2, 129)


def test_rows_in_tasks_stay_there() -> None:
    plan = plan_of(LAPTOP)
    decided = [
        plan.tag(1, 1, Place.TASKS, jobs_before=1),
        plan.resolve(16 * MEBIBYTE + 1, Place.TASKS, [1.0]),
        plan.write([1.0], Place.TASKS),
    ]
    assert [(stage.place, stage.jobs) for stage in decided] == [(Place.TASKS, jobs) for jobs in (2, 1, 1)]


@pytest.mark.parametrize("resources", [LAPTOP, CLUSTER])
def test_a_driver_compares_few_moves(resources: Resources) -> None:
    plan = plan_of(resources)
    assert plan.resolve(16 * MEBIBYTE, Place.TASKS, [255 * MEBIBYTE]).by_driver
    of_many_rows = plan.resolve(16 * MEBIBYTE + 1, Place.TASKS, [1.0])
    of_large_files = plan.resolve(1, Place.TASKS, [256 * MEBIBYTE])
    none = plan_of(Resources(GIBIBYTE, resources.local_cores, resources.heap_bytes, set_bytes=0))
    by_tasks = [of_many_rows, of_large_files, none.resolve(1, Place.TASKS, [1.0])]
    assert [(stage.place, stage.jobs, stage.tasks) for stage in by_tasks] == [(Place.TASKS, 1, 2)] * 3


@pytest.mark.parametrize("resources", [LAPTOP, CLUSTER])
def test_a_driver_compares_few_fingerprints(resources: Resources) -> None:
    plan = plan_of(resources, is_load=True)
    assert plan.compare_fingerprints(1, 16 * MEBIBYTE).by_driver
    by_tasks = plan.compare_fingerprints(1, 16 * MEBIBYTE + 1)
    assert (by_tasks.place, by_tasks.jobs, by_tasks.tasks) == (Place.TASKS, 1, 2)
    none = plan_of(Resources(GIBIBYTE, resources.local_cores, resources.heap_bytes, set_bytes=0), is_load=True)
    assert not none.compare_fingerprints(1, 1).by_driver


def test_a_local_driver_rewrites_any_files() -> None:
    assert plan_of(LAPTOP).write([GIBIBYTE] * 1_000, Place.DRIVER).by_driver


def test_a_cluster_rewrites_large_files() -> None:
    plan = plan_of(CLUSTER)
    assert plan.write([64 * MEBIBYTE], Place.DRIVER).by_driver
    decided = plan.write([64 * MEBIBYTE, 1], Place.DRIVER)
    assert (decided.place, decided.tasks) == (Place.TASKS, 2)
    assert str(64 * MEBIBYTE) in decided.reason
    with_threads = plan_of(Resources(GIBIBYTE, driver_threads=2))
    assert with_threads.write([128 * MEBIBYTE], Place.DRIVER).by_driver
    assert not with_threads.write([128 * MEBIBYTE, 1], Place.DRIVER).by_driver


@pytest.mark.parametrize(
    ("cores", "groups", "place"),
    [(2, 100_000, Place.DRIVER), (4, 500, Place.DRIVER), (4, 501, Place.TASKS), (100, 251, Place.DRIVER)],
)
def test_many_small_files_need_many_cores(cores: int, groups: int, place: Place) -> None:
    assert plan_of(CLUSTER, cores=cores).write([1.0] * groups, Place.DRIVER).place is place
    assert plan_of(CLUSTER, cores=cores).resolve(1, Place.DRIVER, [1.0] * groups).place is place


def test_tasks_follow_bytes_and_cores() -> None:
    parallelism = Parallelism(lambda: 4)
    assert [parallelism.for_bytes(size) for size in (0, 256 * MEBIBYTE, 256 * MEBIBYTE + 1)] == [4, 4, 8]
    assert [parallelism.for_files(count) for count in (0, 3, 100)] == [0, 3, 8]
    assert [parallelism.for_pieces(count) for count in (0, 3, 100)] == [0, 3, 16]
    assert [plan_of(CLUSTER).sums(tasks) for tasks in (1, 31, 32)] == [1, 1, 2]


def test_executors_that_come_later_count() -> None:
    cores = [2]
    plan = ExecutionPlan(CLUSTER, Parallelism(lambda: cores[0]))
    assert plan.tag(1, 1, Place.TASKS).tasks == 2
    cores[0] = 64
    assert plan.write([65 * MEBIBYTE], Place.DRIVER).tasks == 64


def test_each_decision_is_told() -> None:
    told = list[Decision]()
    plan = plan_of(CLUSTER, tell=told.append, limits=Limits(rewritten_bytes=10))
    plan.request(3, 300, brought=1, files=0)
    plan.tag(3, 300, Place.DRIVER)
    plan.resolve(50, Place.DRIVER, [5.0])
    plan.write([20.0], Place.DRIVER)
    assert [(found.stage, found.place) for found in told] == [
        (Stage.REQUEST, Place.DRIVER),
        (Stage.TAG, Place.DRIVER),
        (Stage.RESOLVE, Place.DRIVER),
        (Stage.WRITE, Place.TASKS),
    ]
    assert all(found.reason for found in told)


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[2]", 2),
        ("local[8, 3]", 8),
        ("local-cluster[2,1,1024]", None),
        ("spark://host:7077", None),
        ("yarn", None),
    ],
)
def test_masters_tell_their_local_cores(master: str, cores: int | None) -> None:
    assert local_cores(master) == cores


def test_settings_tell_the_driver_cores() -> None:
    assert [cores_of_driver(value) for value in (None, "", "4", " 2 ")] == [1, 1, 4, 2]


@pytest.mark.parametrize("value", ["two", "0", "-1", "2.5"])
def test_other_cores_are_refused(value: str) -> None:
    with pytest.raises(SettingsError, match=r"spark\.driver\.cores"):
        cores_of_driver(value)


@pytest.mark.parametrize("value", ["a lot", "1x", "-1"])
def test_a_wrong_size_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match=r"spark\.driver\.maxResultSize"):
        size_of_results(value)
