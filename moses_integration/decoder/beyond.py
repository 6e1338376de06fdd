"""What the embedded decoder does not know, though Moses may."""

from __future__ import annotations

from phrasescore.errors import UserError


class BeyondDecoderError(UserError):
    """A system has something that the embedded decoder does not know."""

    def __init__(self, fault: str, remedy: str = "give a system without it") -> None:
        """Take what is wrong and where, and what may be done besides using Moses."""
        super().__init__(f"{fault}; {remedy}, or use Moses")
        self._fault, self._remedy = fault, remedy

    def __reduce__(self) -> tuple[type[BeyondDecoderError], tuple[str, str]]:
        """Let it come whole from other processes, which would be given the message for the fault."""
        return type(self), (self._fault, self._remedy)

    @property
    def for_any_toolkit(self) -> str:
        """The message where it does not matter who translates."""
        return (
            f"{self._fault}; {self._remedy}, for the table of a text is made by what the embedded decoder knows, "
            "whatever translates it"
        )
