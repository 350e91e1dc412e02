"""The variants of a large session: a dict that is filled from the session file as it is asked."""

from __future__ import annotations

import threading
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from pathlib import Path
from typing import Any

from kerneltui.records import Tree, Variant
from kerneltui.store import Store


class StoredVariants(dict[str, Variant]):
    """Variant by id. One that was not read yet is read when it is asked for; whoever goes through them all has all read.

    A hundred thousand records take 75 MB and two seconds, and a screen shows fifty. Any thread may ask.
    """

    def __init__(self, folder: Path, tree: Tree, *, count: int, last_row: int) -> None:
        """In the place of a tree's few variants, where its file has `count`, up to row `last_row`."""
        super().__init__(tree.variants)
        self.tree, self.last_row = tree, last_row
        self._folder, self._count = folder, count
        self._lock = threading.RLock()
        self._store: Store | None = None
        self._whole = False

    # ----------------------------------------------------------------- the file

    def _open(self) -> Store:
        if self._store is None:
            self._store = Store.open(self._folder, migrate=False, shared=True)
        return self._store

    def close(self) -> None:
        """Give the file back; it is opened again for whoever still asks."""
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None

    def of_ideas(self, ideas: Iterable[str], pieces: Iterable[int] | None) -> list[Variant]:
        """Variants of some ideas and of none, in order of creation; those that were there before are kept."""
        with self._lock:
            if self._whole:
                wanted = set(ideas)
                return [variant for variant in super().values() if variant.idea is None or variant.idea in wanted]
            return [self.setdefault(variant.id, variant) for variant in self._open().variants_of(ideas, pieces)]

    def read_all(self) -> None:
        """Read what is missing."""
        with self._lock:
            if self._whole:
                return
            known = dict(super().items())
            everything = {variant.id: variant for variant in self._open().read_variants()}
            everything.update(known)
            super().clear()
            super().update(everything)
            self._whole = True

    # ----------------------------------------------------------------- as a dict

    def __missing__(self, id: str) -> Variant:
        with self._lock:
            found = None if self._whole or not id else self._open().read_variant(id)
            if found is None:
                raise KeyError(id)
            self[id] = found
            return found

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self.get(id) is not None

    def get(self, id: str, default: Any = None) -> Any:
        try:
            return self[id]
        except KeyError:
            return default

    def update(self, new: Mapping[str, Variant]) -> None:  # type: ignore[override]
        """Take in what the feed found; what lies behind the last row that was counted is new."""
        with self._lock:
            for id in new:
                if not super().__contains__(id) and (self._whole or (self._open().row_of(id) or 0) > self.last_row):
                    self._count += 1
            super().update(new)

    def __len__(self) -> int:
        return super().__len__() if self._whole else self._count

    def __iter__(self) -> Iterator[str]:
        self.read_all()
        return super().__iter__()

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        self.read_all()
        return super().keys()

    def values(self) -> ValuesView[Variant]:  # type: ignore[override]
        self.read_all()
        return super().values()

    def items(self) -> ItemsView[str, Variant]:  # type: ignore[override]
        self.read_all()
        return super().items()
