"""How many independent multipliers an average has seen, when a multiplier stays for a block."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from inferl.invariants import COUNT, bounds, shapes
from inferl.rows import Floats, Integers

__all__ = ["EffectiveBlocks"]


@dataclass(frozen=True, eq=False)
class EffectiveBlocks:
    """How many independent multipliers the average has seen: (sum q)^2 / sum q^2, q a block's squared weights."""

    tick: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # (S,) of the open block
    open: Floats = field(default_factory=lambda: np.zeros(0))  # (S,) q of the open block
    total: float = 0.0
    squares: float = 0.0  # over closed blocks

    def verify(self) -> None:
        """Refuse what no blocks leave."""
        shapes(self, {"tick": "S", "open": "S"})
        bounds(self, {"tick": (-1, COUNT[1])} | dict.fromkeys(("open", "total", "squares"), (0, 1e150)))

    def taking(self, slot: Integers, tick: Integers, weight: Floats) -> EffectiveBlocks:
        """Take in rows with their averaging weights."""
        new = int(slot.max(initial=-1)) + 1 - len(self.tick)
        ticks = np.r_[self.tick, np.full(max(new, 0), -1)]
        opened = np.r_[self.open, np.zeros(max(new, 0))]
        total, squares = self.total, self.squares
        for s, now, q in zip(slot.tolist(), tick.tolist(), (weight**2).tolist(), strict=True):
            if now != ticks[s]:
                squares += float(opened[s]) ** 2
                ticks[s], opened[s] = now, 0.0
            opened[s] += q
            total += q
        return EffectiveBlocks(ticks, opened, total, squares)

    @property
    def number(self) -> float:
        """K_eff."""
        squares = self.squares + float(np.sum(self.open**2))
        return self.total**2 / squares if squares > 0 else 0.0
