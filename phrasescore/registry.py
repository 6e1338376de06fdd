"""Registries of components by name, which plugins can extend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from phrasescore.configuration import suggestion
from phrasescore.errors import UserError

T = TypeVar("T")
U = TypeVar("U")


class NotRegisteredError(UserError):
    """No component has this name."""


class Registry(Generic[T]):
    """Named components of one kind, registered by a decorator."""

    def __init__(self, kind: str) -> None:
        """Create a registry; `kind` names its components in error messages."""
        self.kind = kind
        self._things: dict[str, T] = {}

    def register(self, name: str) -> Callable[[U], U]:
        """Return the decorator that registers a class or a function."""
        if not isinstance(name, str):
            raise UserError(f'a part is registered as {name!r}; give its name, as in @register_unit("minimal")')

        def add(thing: U) -> U:
            if name in self._things:
                raise UserError(f"there is already the {self.kind} `{name}`; register yours under another name")
            self._things[name] = thing  # type: ignore[assignment]
            return thing

        return add

    def __getitem__(self, name: str) -> T:
        """Return a registered component, or raise `NotRegisteredError`."""
        if name not in self._things:
            advice = f"{suggestion(name, self._things)} (a plugin may bring others)"
            raise NotRegisteredError(f"there is no {self.kind} `{name}`; {advice}")
        return self._things[name]
