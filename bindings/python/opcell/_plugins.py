"""Plugins with their grants and limits."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence, Union

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
    component: Union[str, "os.PathLike[str]", bytes]
    """A path, or the bytes of the component."""
    grants: Sequence[Grant] = ()
    limits: Limits = field(default_factory=dict)
    """Limits of its own, where they are tighter than the host's."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What the plugin reads through ``wasi:config/store``."""

    def _data(self) -> "dict[str, Any]":
        return {
            "name": self.name,
            "path": None if isinstance(self.component, bytes) else os.fspath(self.component),
            "grants": [grant._data for grant in self.grants],
            "limits": dict(self.limits),
            "settings": dict(self.settings),
        }
