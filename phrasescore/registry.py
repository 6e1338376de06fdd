"""Things chosen by name, to which a file of the user's can add its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from phrasescore.configuration import suggestion
from phrasescore.errors import UserError

T = TypeVar("T")
U = TypeVar("U")


class NotRegisteredError(UserError):
    """There is nothing of this name."""


class Registry(Generic[T]):
    """A dictionary of named things of one kind, filled by a decorator."""

    def __init__(self, kind: str) -> None:
        """`kind` is what the things are called in error messages."""
        self.kind = kind
        self._things: dict[str, T] = {}

    def register(self, name: str) -> Callable[[U], U]:
        """Return the decorator that adds a class or a function under a name.

        Raises:
            UserError: the name is none, or taken.
        """
        if not isinstance(name, str):
            raise UserError(f'a part is registered as {name!r}; give its name, as in @register_unit("minimal")')

        def add(thing: U) -> U:
            if name in self._things:
                raise UserError(f"there is already the {self.kind} `{name}`; register yours under another name")
            self._things[name] = thing  # type: ignore[assignment]
            return thing

        return add

    def __getitem__(self, name: str) -> T:
        """Return what is registered under a name.

        Raises:
            NotRegisteredError: nothing is; the nearest name is suggested.
        """
        if name not in self._things:
            advice = f"{suggestion(name, self._things)} (--plugin brings others)"
            raise NotRegisteredError(f"there is no {self.kind} `{name}`; {advice}")
        return self._things[name]
