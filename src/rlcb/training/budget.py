"""When a run ends: after a number of steps, a time, or whichever comes first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    timesteps: int | None
    seconds: float | None

    def share(self, timesteps: int, seconds: float) -> float:
        """How much is used up, from 0 to 1."""
        shares = [0.0]
        if self.timesteps is not None:
            shares.append(timesteps / self.timesteps)
        if self.seconds is not None:
            shares.append(seconds / self.seconds)
        return min(max(shares), 1.0)

    def spent(self, timesteps: int, seconds: float) -> bool:
        return self.share(timesteps, seconds) >= 1.0

    def seconds_left(self, timesteps: int, seconds: float) -> float | None:
        """At the pace so far."""
        share = self.share(timesteps, seconds)
        return seconds * (1 - share) / share if share else None

    def __str__(self) -> str:
        parts = []
        if self.seconds is not None:
            parts.append(f"{self.seconds / 3600:g} hours")
        if self.timesteps is not None:
            parts.append(f"{self.timesteps:,} steps")
        return " or ".join(parts) + (", whichever comes first" if len(parts) > 1 else "")
