"""Owns cheap inputs for laws: one draw of bytes, read as a row of choices. Knows no law and no subject."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from hypothesis import strategies as st

_T = TypeVar("_T")


class Tape:
    """Choices read off bytes. Zero is the first choice and the smallest size, and so is all behind the end.

    So what fails still shrinks, while an input costs one draw, not one for each of its parts.
    """

    def __init__(self, raw: bytes) -> None:
        self._bytes = iter(raw)

    def byte(self) -> int:
        return next(self._bytes, 0)

    def below(self, limit: int) -> int:
        if limit <= 256:
            return self.byte() * limit >> 8
        return (self.byte() << 8 | self.byte()) * limit >> 16

    def flag(self) -> bool:
        return self.byte() > 127

    def size(self, at_most: int, at_least: int = 0) -> int:
        """Any size, small ones more often: a third of the way up on average."""
        return at_least + ((at_most - at_least + 1) * self.byte() ** 2 >> 16)

    def of(self, options: Sequence[_T]) -> _T:
        return options[self.below(len(options))]

    def many(self, read: Callable[[], _T], at_most: int, at_least: int = 0) -> list[_T]:
        return [read() for _ in range(self.size(at_most, at_least))]

    def text(self, alphabet: str, at_most: int, at_least: int = 0) -> str:
        return "".join(self.many(lambda: self.of(alphabet), at_most, at_least))

    def any_text(self, at_most: int, at_least: int = 0) -> str:
        return "".join(self.many(self.character, at_most, at_least))

    def character(self) -> str:
        """Every one but a surrogate; ASCII with its control characters, and each length in UTF-8, equally often."""
        size = self.below(4)
        if size == 0:
            return chr(self.below(0x80))
        if size == 1:
            return chr(0x80 + self.below(0x780))
        if size == 2:
            code = 0x800 + self.below(0xF000)
            return chr(code if code < 0xD800 else code + 0x800)
        return chr(0x10000 + (self.below(0x1000) << 8 | self.byte()))


def inputs(size_bytes: int, read: Callable[[Tape], _T]) -> st.SearchStrategy[_T]:
    """What ``read`` makes of so many bytes; it should rarely want more."""
    return st.binary(min_size=size_bytes, max_size=size_bytes).map(lambda raw: read(Tape(raw)))
