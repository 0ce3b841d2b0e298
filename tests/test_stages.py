"""Reports of a long call reach the listener of their own context, and nobody else."""

from __future__ import annotations

import threading

import pytest

from slotflow.core.stages import Stage, announce, listening, tell


def test_reports_reach_the_listener_and_stop_with_it() -> None:
    heard: list[Stage] = []
    tell("search")
    with listening(heard.append):
        tell("windows", 3, 12)
        announce("in 12 windows")
    tell("windows", 4, 12)
    assert heard == [Stage("windows", 3, 12), Stage("", note="in 12 windows")]


def test_an_inner_listener_takes_over_for_a_while_even_if_it_fails() -> None:
    outer: list[Stage] = []
    inner: list[Stage] = []
    with listening(outer.append):
        with pytest.raises(ValueError), listening(inner.append):
            tell("noise")
            raise ValueError
        tell("search")
    assert [stage.name for stage in outer] == ["search"]
    assert [stage.name for stage in inner] == ["noise"]


def test_another_thread_is_not_heard() -> None:
    heard: list[Stage] = []
    with listening(heard.append):
        thread = threading.Thread(target=tell, args=("search",))
        thread.start()
        thread.join()
    assert heard == []
