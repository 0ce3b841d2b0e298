"""CPU threads: told to torch and to the libraries behind NumPy, and left as they were."""

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from slotflow.core import threads as module
from slotflow.core.threads import threads

_ = np.linalg  # loads BLAS


def blas() -> set[int]:
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


def test_a_block_has_the_threads_it_asks_for_and_leaves_them_as_they_were() -> None:
    before = torch.get_num_threads(), blas()
    with threads(1):
        assert torch.get_num_threads() == 1
        assert blas() == {1}
        with threads(2):
            assert torch.get_num_threads() == 2
        assert blas() == {1}
    assert (torch.get_num_threads(), blas()) == before


def test_an_error_leaves_them_as_they_were_too() -> None:
    before = torch.get_num_threads(), blas()
    with pytest.raises(ArithmeticError), threads(1):
        raise ArithmeticError
    assert (torch.get_num_threads(), blas()) == before


def test_none_changes_nothing() -> None:
    before = torch.get_num_threads()
    with threads(None):
        assert torch.get_num_threads() == before


def test_without_threadpoolctl_torch_alone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_libraries", lambda: None)
    with threads(1):
        assert torch.get_num_threads() == 1
