"""What waits, and who is next: callers in turn, then priority and age, then trees of runs in turn. Pure.

Every caller that has something waiting is next within as many turns as there are callers. Items cost the same, so
that turns of one item are a deficit round robin whose quantum is one.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Generic, TypeVar
from uuid import UUID

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """For whom an item waits: `root` is the run that the caller submitted, whoever below it asks."""

    caller: str
    root: UUID
    priority: int = 5


Queue = OrderedDict[UUID, tuple[T, float]]
Trees = OrderedDict[UUID, "Queue[T]"]


class Turns(Generic[T]):
    """Items by key; each is put once and leaves when its turn comes, or when it is dropped."""

    def __init__(self, ageing_s: float = 30.0) -> None:
        """Count *ageing_s* seconds of waiting as one step of priority."""
        self._ageing_s = ageing_s
        self._callers: OrderedDict[str, dict[int, Trees[T]]] = OrderedDict()
        self._owners: dict[UUID, Owner] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, key: UUID) -> bool:
        return key in self._owners

    def put(self, key: UUID, item: T, owner: Owner, now: float) -> None:
        """Let *item* wait from *now* on; one that waits already under this key gives it its place."""
        held = self._owners.get(key)
        if held is not None:
            queue = self._callers[held.caller][held.priority][held.root]
            queue[key] = item, queue[key][1]
            return
        self._owners[key] = owner
        levels = self._callers.setdefault(owner.caller, {})
        levels.setdefault(owner.priority, OrderedDict()).setdefault(owner.root, OrderedDict())[key] = item, now

    def get(self, key: UUID) -> T | None:
        """Return what waits under *key*."""
        held = self._owners.get(key)
        return None if held is None else self._callers[held.caller][held.priority][held.root][key][0]

    def drop(self, key: UUID) -> T | None:
        """Take an item out of turn; None where it does not wait."""
        held = self._owners.get(key)
        return None if held is None else self._take(key, held)

    def peek(self, now: float) -> T:
        """Return the item whose turn it is, and leave it. Raises LookupError."""
        owner = self._first(now)
        queue = self._callers[owner.caller][owner.priority][owner.root]
        return next(iter(queue.values()))[0]

    def _first(self, now: float) -> Owner:
        if not self._owners:
            msg = "nothing waits"
            raise LookupError(msg)
        caller, levels = next(iter(self._callers.items()))
        priority = max(levels, key=lambda level: level + (now - _since(levels[level])) / self._ageing_s)
        return Owner(caller=caller, root=next(iter(levels[priority])), priority=priority)

    def next(self, now: float) -> T:
        """Take the item whose turn it is; its caller, and its tree, are last from here on. Raises LookupError."""
        owner = self._first(now)
        caller, priority, root = owner.caller, owner.priority, owner.root
        levels = self._callers[caller]
        item = self._take(next(iter(levels[priority][root])), owner)
        if priority in levels and root in levels[priority]:
            levels[priority].move_to_end(root)
        if caller in self._callers:
            self._callers.move_to_end(caller)
        return item

    def items(self) -> list[T]:
        """Return everything that waits."""
        return [item for key in self._owners if (item := self.get(key)) is not None]

    def _take(self, key: UUID, owner: Owner) -> T:
        levels = self._callers[owner.caller]
        trees = levels[owner.priority]
        item, _ = trees[owner.root].pop(key)
        del self._owners[key]
        if not trees[owner.root]:
            del trees[owner.root]
        if not trees:
            del levels[owner.priority]
        if not levels:
            del self._callers[owner.caller]
        return item


def _since(trees: "Trees[T]") -> float:
    """Return since when the next item of a level waits."""
    queue = next(iter(trees.values()))
    return next(iter(queue.values()))[1]
