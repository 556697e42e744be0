"""What an engine can fail with. No message holds anything that was read from the records."""

from __future__ import annotations

from dphist.errors import DphistError, InvalidParameter


class UnreadableSource(InvalidParameter):
    """A source that is missing, damaged or of an unknown kind."""


class EngineFailure(DphistError):
    """The engine gave up: memory, disk, or damage found while reading. The engine's own message may quote records."""

    def __init__(self, expected: str, hint: str = "") -> None:
        self.expected, self.hint = expected, hint
        super().__init__(f"Expected {expected}, got a failure of the engine." + (f" Hint: {hint}" if hint else ""))

    def __reduce__(self) -> tuple[type[EngineFailure], tuple[str, str]]:
        return type(self), (self.expected, self.hint)
