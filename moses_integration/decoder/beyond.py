"""What the embedded decoder does not know, though Moses may."""

from __future__ import annotations

from phrasescore.errors import UserError


class BeyondDecoderError(UserError):
    """A system has something that the embedded decoder does not know."""

    def __init__(self, fault: str, remedy: str = "") -> None:
        """Take what is wrong and where, and what may be done besides using Moses."""
        super().__init__(f"{fault}; {remedy}, or use Moses" if remedy else f"{fault}; use Moses")
        self.for_any_toolkit = (
            f"{fault}; {remedy or 'give another'}, for the table of a text is made by what the embedded decoder knows, "
            "whatever translates it"
        )
        """The message where it does not matter who translates."""
