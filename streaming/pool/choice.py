"""Owns which of a model's engines a request is sent to. Leases none; seats and times come in."""

from collections import OrderedDict
from collections.abc import Sequence

from .seat import Seat
from .waiting import Wish

REMEMBERED_CONVERSATIONS = 10_000
#: How much more of its slots the engine that knows a conversation may have in use than the emptiest.
AFFINITY_SLACK = 0.5


class Choice:
    """The healthy and emptiest, unless another has the conversation in its cache and is not much fuller."""

    def __init__(self) -> None:
        self._served_by: OrderedDict[str, int] = OrderedDict()

    def best(self, seats: Sequence[Seat], wish: Wish, now: float) -> Seat | None:
        """The seat to take of these; None where it is better to wait."""
        wanted = _wanted([seat for seat in seats if not (wish.by_ids and seat.engine.renders_prompt)], wish, now)
        best = min(wanted, key=lambda seat: (seat.is_stalled(now), seat.load), default=None)
        known_by = self._served_by.get(wish.conversation)
        known = next((seat for seat in wanted if seat.row.pk == known_by), None)
        if best and known and not known.is_stalled(now) and known.load <= best.load + AFFINITY_SLACK:
            return known
        return best

    def made(self, wish: Wish, seat: Seat) -> None:
        """From now on the seat's engine knows the conversation."""
        if wish.conversation:
            self._served_by[wish.conversation] = seat.row.pk
            self._served_by.move_to_end(wish.conversation)
            if len(self._served_by) > REMEMBERED_CONVERSATIONS:
                self._served_by.popitem(last=False)


def _wanted(seats: Sequence[Seat], wish: Wish, now: float) -> list[Seat]:
    healthy = [seat for seat in seats if not seat.health.is_ejected(now)]
    # An engine that just failed this request is not a good one to have at once: rather wait for a better.
    healthy = [seat for seat in healthy if seat.row.pk not in wish.avoid] or healthy
    if healthy:
        return [seat for seat in healthy if seat.free(now) > 0]
    # Nobody is better than these: to be refused by them is a quicker answer than to wait.
    return [seat for seat in seats if seat.leased < seat.slots]
