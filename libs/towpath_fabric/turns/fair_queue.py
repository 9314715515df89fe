"""A fair queue: round robin over projects, then over callers, then priority, then round robin over trees of runs. Pure.

    project X -> caller A -> priority 7 -> tree of run 1 -> items, oldest first
                          -> priority 5 -> tree of run 2, tree of run 3
              -> caller B -> ...
    project Y -> ...

Every project with waiting items is served within as many turns as there are projects, whatever the others queue and
however many callers they have; of its turns every caller has one within as many as it has callers. Priority grows with
waiting. All items cost the same, so this is deficit round robin with a quantum of one.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Generic, TypeVar
from uuid import UUID

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOwner:
    """For whom an item waits: `root` is the run that the caller submitted, also where one of its child runs asks.

    Callers whose `project` is not known share one turn of projects.
    """

    caller: str
    root: UUID
    priority: int = 5
    project: str = ""


Queue = OrderedDict[UUID, tuple[T, float]]
Trees = OrderedDict[UUID, "Queue[T]"]
Callers = OrderedDict[str, dict[int, "Trees[T]"]]


class FairQueue(Generic[T]):
    """Items by key; each leaves when its turn comes, or when it is dropped."""

    def __init__(self, ageing_s: float = 30.0) -> None:
        """Count *ageing_s* seconds of waiting as one step of priority."""
        self._ageing_s = ageing_s
        self._projects: OrderedDict[str, Callers[T]] = OrderedDict()
        self._owners: dict[UUID, QueueOwner] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, key: UUID) -> bool:
        return key in self._owners

    def put(self, key: UUID, item: T, owner: QueueOwner, now: float) -> None:
        """Queue *item* at *now*. Where the key is queued already, the item takes its place and its age."""
        held = self._owners.get(key)
        if held is not None:
            queue = self._queue_of(held)
            queue[key] = item, queue[key][1]
            return
        self._owners[key] = owner
        levels = self._projects.setdefault(owner.project, OrderedDict()).setdefault(owner.caller, {})
        levels.setdefault(owner.priority, OrderedDict()).setdefault(owner.root, OrderedDict())[key] = item, now

    def get(self, key: UUID) -> T | None:
        """Return the item under *key*, None where there is none."""
        held = self._owners.get(key)
        return None if held is None else self._queue_of(held)[key][0]

    def drop(self, key: UUID) -> T | None:
        """Remove an item out of turn; None where it is not queued."""
        held = self._owners.get(key)
        return None if held is None else self._take(key, held)

    def peek(self, now: float) -> T:
        """Return the item whose turn it is without removing it. Raises LookupError."""
        owner = self._first(now)
        return next(iter(self._queue_of(owner).values()))[0]

    def _first(self, now: float, except_for: Collection[str] = ()) -> QueueOwner:
        places = ((project, caller) for project, callers in self._projects.items() for caller in callers)
        project, caller = next((place for place in places if place[1] not in except_for), ("", None))
        if caller is None:
            msg = "the queue has nothing for anybody else" if self._owners else "the queue is empty"
            raise LookupError(msg)
        levels = self._projects[project][caller]
        priority = max(levels, key=lambda level: level + (now - _since(levels[level])) / self._ageing_s)
        return QueueOwner(caller=caller, root=next(iter(levels[priority])), priority=priority, project=project)

    def next(self, now: float, except_for: Collection[str] = ()) -> T:
        """Remove the item whose turn it is; its project, caller and tree go to the end. Raises LookupError.

        Callers that are *except_for* keep their turns for later.
        """
        owner = self._first(now, except_for)
        callers = self._projects[owner.project]
        levels = callers[owner.caller]
        item = self._take(next(iter(levels[owner.priority][owner.root])), owner)
        if owner.priority in levels and owner.root in levels[owner.priority]:
            levels[owner.priority].move_to_end(owner.root)
        if owner.caller in callers:
            callers.move_to_end(owner.caller)
        if owner.project in self._projects:
            self._projects.move_to_end(owner.project)
        return item

    def holds(self, caller: str) -> bool:
        """Return whether an item of *caller* waits."""
        return any(caller in callers for callers in self._projects.values())

    def items(self) -> list[T]:
        return [item for key in self._owners if (item := self.get(key)) is not None]

    def _queue_of(self, owner: QueueOwner) -> "Queue[T]":
        return self._projects[owner.project][owner.caller][owner.priority][owner.root]

    def _take(self, key: UUID, owner: QueueOwner) -> T:
        callers = self._projects[owner.project]
        levels = callers[owner.caller]
        trees = levels[owner.priority]
        item, _ = trees[owner.root].pop(key)
        del self._owners[key]
        if not trees[owner.root]:
            del trees[owner.root]
        if not trees:
            del levels[owner.priority]
        if not levels:
            del callers[owner.caller]
        if not callers:
            del self._projects[owner.project]
        return item


def _since(trees: "Trees[T]") -> float:
    """Return when the next item of a priority level was queued."""
    queue = next(iter(trees.values()))
    return next(iter(queue.values()))[1]


def take_in_turns(waiting: deque[T], most: int, most_of_one: int, owner_of: Callable[[T], str]) -> list[T]:
    """Remove items from *waiting* and return them: everybody's oldest, then everybody's second, and so on.

    They are at most *most*, and of one owner at most *most_of_one*. Owners come in the order of their oldest items, so
    whoever gets no place is further in front the next time. Items of one owner keep their order.
    """
    rounds: list[list[int]] = [[] for _ in range(most_of_one)]
    counts: dict[str, int] = {}
    for place, item in enumerate(waiting):
        owner = owner_of(item)
        count = counts.get(owner, 0)
        if count < most_of_one:
            counts[owner] = count + 1
            rounds[count].append(place)
    chosen = [place for places in rounds for place in places][:most]
    items, taken = list(waiting), set(chosen)
    waiting.clear()
    waiting.extend(item for place, item in enumerate(items) if place not in taken)
    return [items[place] for place in chosen]
