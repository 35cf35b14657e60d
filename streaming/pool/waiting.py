"""Owns those who wait for a model, fair over users, and what those are told for whom there is no place."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from .seat import Seat

FIRST_GUESS_S = 5.0
SMOOTHING = 0.2
TOLD_MAX_S = 300.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What one request asks of the pool. ``by_ids``: its prompt is ids, which some engines do not take.

    ``avoid`` are the keys of engines that are taken only where no other is healthy.
    """

    user: str = ""
    conversation: str = ""
    avoid: Collection[int] = ()
    by_ids: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A wish that waits for its seat."""

    wish: Wish
    seat: asyncio.Future[Seat] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class FairQueue:
    """Users in turn; of each user the one who came first."""

    def __init__(self) -> None:
        self._places: OrderedDict[str, deque[Place]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._places.values()))

    def enter(self, wish: Wish) -> Place:
        """A place behind the user's others."""
        place = Place(wish)
        self._places.setdefault(wish.user, deque()).append(place)
        return place

    def leave(self, place: Place) -> None:
        """Give a place up, if it is still one."""
        places = self._places.get(place.wish.user, deque())
        if place in places:
            places.remove(place)
            if not places:
                del self._places[place.wish.user]

    def serve(self, seat_for: Callable[[Wish], Seat | None]) -> Seat | None:
        """Give the first in turn whose wish can be met a seat; its user is the last of all then."""
        hopeless: set[tuple[bool, frozenset[int]]] = set()
        for place in [place for places in self._places.values() for place in places]:
            if place.seat.done():  # given up a moment ago
                self.leave(place)
            elif (kind := (place.wish.by_ids, frozenset(place.wish.avoid))) not in hopeless:
                if (seat := seat_for(place.wish)) is not None:
                    self.leave(place)
                    if place.wish.user in self._places:
                        self._places.move_to_end(place.wish.user)
                    place.seat.set_result(seat)
                    return seat
                hopeless.add(kind)  # nothing else in a wish can leave it unmet
        return None


class ServiceRate:
    """How fast a model's requests are served, measured by how long they lately kept their slots."""

    def __init__(self) -> None:
        self.lease_s = FIRST_GUESS_S
        self._is_measured = False
        self._promised_until = float("-inf")

    def served(self, lasted_s: float) -> None:
        """A request gave its slot back. The first one replaces the guess."""
        weight = SMOOTHING if self._is_measured else 1.0
        self._is_measured = True
        self.lease_s += weight * (lasted_s - self.lease_s)

    def retry_after_s(self, waiting: int, slots: int, now: float) -> float:
        """When one that is refused now can be served: after those who wait, and those who were told to come back."""
        each_s = self.lease_s / max(1, slots)
        self._promised_until = max(self._promised_until, now + waiting * each_s) + each_s
        self._promised_until = min(self._promised_until, now + TOLD_MAX_S)
        return max(1.0, self._promised_until - now)
