"""What was found of one signal, on its way to a record: the facts, the table, and the posterior where it is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slotflow.posterior.facts import Facts
    from slotflow.posterior.plain_table import PlainTable
    from slotflow.posterior.posterior import Posterior

__all__ = ["Found"]


@dataclass(frozen=True, eq=False)
class Found:
    """What was found of one signal."""

    facts: Facts
    """What is known without a draw."""
    make: Callable[[], Posterior]
    """Gives the posterior; that of a signal in a batch is made only if it is asked for."""
    table: PlainTable | None = None
    """The table of components, where those of a batch were made together."""

    @classmethod
    def of(cls, post: Posterior) -> Found:
        """What a posterior says."""
        return cls(post, lambda: post)

    @property
    def post(self) -> Posterior:
        """The posterior."""
        return self.make()
