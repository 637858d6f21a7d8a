"""Tasks in threads: whatever their number, the results are those of one after the other."""

from __future__ import annotations

import threading

import pytest

from vber_cli.parallel import in_threads, one_ahead


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_results_come_in_the_order_of_the_tasks(n, threads):
    assert in_threads(lambda task: task * task, range(n), threads) == [task * task for task in range(n)]
    assert list(one_ahead(lambda task: task * task, range(n), threads)) == [task * task for task in range(n)]


def test_the_next_task_begins_before_the_last_is_used_up():
    begun = [threading.Event() for _ in range(3)]

    def run(task):
        begun[task].set()
        return task

    results = one_ahead(run, range(3), 2)
    assert next(results) == 0
    assert begun[1].wait(10)
    assert not begun[2].is_set()
    assert list(results) == [1, 2]


def test_with_one_thread_nothing_is_done_ahead():
    begun = []
    results = one_ahead(begun.append, range(3), 1)
    next(results)
    assert begun == [0]


@pytest.mark.parametrize("threads", [1, 2])
def test_errors_of_tasks_are_raised(threads):
    def fail(task):
        raise ValueError(task)

    with pytest.raises(ValueError, match="4"):
        in_threads(fail, [4], threads)
    with pytest.raises(ValueError, match="4"):
        list(one_ahead(fail, [4], threads))
