"""Plugins with their grants and limits."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional, Sequence, Union

Path = Union[str, "os.PathLike[str]"]
Quantity = Union[int, str]
Limits = Mapping[str, Quantity]
"""Limits by their keys, such as ``{"memory": "16 MiB", "wall-time": "2 s"}``: a number is of the limit's unit."""


@dataclass(frozen=True)
class Grant:
    """Something that a plugin may reach, as far as its manifest asks for it."""

    _data: Mapping[str, Any]

    @staticmethod
    def tool(name: str) -> "Grant":
        """A tool: of the host, or of this program."""
        return Grant({"kind": "tool", "name": name})

    @staticmethod
    def skill(name: str) -> "Grant":
        """A skill."""
        return Grant({"kind": "skill", "name": name})

    @staticmethod
    def read(name: str, directory: Path, patterns: Sequence[str] = ()) -> "Grant":
        """Reading below a directory, under the name by which the plugin asks for it."""
        return Grant._files(name, directory, patterns, write=False)

    @staticmethod
    def read_write(name: str, directory: Path, patterns: Sequence[str] = ()) -> "Grant":
        """Reading and writing below a directory."""
        return Grant._files(name, directory, patterns, write=True)

    @staticmethod
    def _files(name: str, directory: Path, patterns: Sequence[str], *, write: bool) -> "Grant":
        directory = os.fspath(directory)
        return Grant(
            {"kind": "files", "name": name, "directory": directory, "write": write, "patterns": list(patterns)}
        )

    @staticmethod
    def store(name: str, *, per_run: bool = False) -> "Grant":
        """A store in which the plugin keeps values from one call to the next."""
        return Grant({"kind": "store", "name": name, "per_run": per_run})


@dataclass(frozen=True)
class Plugin:
    """A plugin: a component in a file or in memory, with exactly these grants."""

    name: str
    """What receipts, denials and errors call it."""
    component: Union[str, "os.PathLike[str]", bytes, None]
    """A path, the bytes of the component, or ``None`` for a plugin that is part of Opcell: :meth:`code`."""
    grants: Sequence[Grant] = ()
    limits: Limits = field(default_factory=dict)
    """Limits of its own, where they are tighter than the host's."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What the plugin reads through ``wasi:config/store``."""

    @classmethod
    def code(cls, grants: Sequence[Grant] = (), *, limits: Optional[Limits] = None) -> "Plugin":
        """The plugin whose operation ``code/run`` runs programs in JavaScript, which call the tools granted here.

        A program has no shell, no network and no files: it reaches these tools alone.
        """
        return cls("code", None, grants, limits or {})

    def _data(self) -> "dict[str, Any]":
        return {
            "name": self.name,
            "builtin": self.component is None,
            "path": None if isinstance(self.component, (bytes, type(None))) else os.fspath(self.component),
            "grants": [grant._data for grant in self.grants],
            "limits": dict(self.limits),
            "settings": dict(self.settings),
        }


@dataclass(frozen=True)
class Tenant:
    """A tenant or a user of the program: a plugin reaches on its behalf exactly what is granted here."""

    name: str
    """What calls and runs name it by: a letter or digit, then up to 63 letters, digits, ``.``, ``_`` and ``-``."""
    grants: Mapping[str, Sequence[Grant]] = field(default_factory=dict)
    """Grants by plugins."""
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Settings by plugins."""
    limits: Limits = field(default_factory=dict)
    """Limits of every plugin's cells, where they are tighter than the plugin's."""
    model: Optional[Callable[[Any], Any]] = None
    """A function that answers every round of its sessions, as the host's."""
    providers: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    """Functions in place of the host's providers of these names."""
    model_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Its own keys for providers of the host. They stay in memory; nothing shows them."""

    def _data(self) -> "dict[str, Any]":
        for provider, key in self.model_keys.items():
            if not isinstance(key, str):
                raise TypeError(f"the key for the provider `{provider}` is not a str")
        return {
            "name": self.name,
            "limits": dict(self.limits),
            "grants": {plugin: [grant._data for grant in grants] for plugin, grants in self.grants.items()},
            "settings": {plugin: dict(settings) for plugin, settings in self.settings.items()},
            "keys": dict(self.model_keys),
        }
