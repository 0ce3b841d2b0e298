"""How many CPU threads arithmetic takes: torch's own, and those of the libraries behind NumPy and SciPy.

torch can be told by a function, the others (BLAS) only through themselves, which threadpoolctl does. Both matter: a
process that computes on small arrays with all cores of a large machine waits for its threads most of the time, and
several such processes wait for each other. On a bare machine without threadpoolctl torch alone is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, TypeVar

import torch

__all__ = ["limit_threads", "side_by_side", "threads"]

Item = TypeVar("Item")
Found = TypeVar("Found")


@cache
def _libraries() -> Any:
    """The libraries that are loaded; finding them takes milliseconds. None if nobody can tell them."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()


def _limited(n: int) -> AbstractContextManager[Any]:
    """The libraries with n threads, from now on until the block ends, if it is used for one."""
    found = _libraries()
    return nullcontext() if found is None else found.limit(limits=n, user_api="blas")


def limit_threads(n: int) -> None:
    """Lets this process compute with n threads from now on."""
    torch.set_num_threads(n)
    _limited(n)


@contextmanager
def threads(n: int | None) -> Iterator[None]:
    """Runs a block with n threads, or with as many as there are; afterwards everything is as it was."""
    if n is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        with _limited(n):
            yield
    finally:
        torch.set_num_threads(before)


def side_by_side(
    work: Callable[[Item], Found], items: Iterable[Item], count: int
) -> Iterator[Found]:
    """What comes of items, each as soon as it is there, from so many threads; with one, this thread works them off."""
    if count <= 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            for future in futures:  # of no use to anybody if one has failed
                future.cancel()
