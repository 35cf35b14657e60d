"""Owns the operations that an expression may use: on decimals, in a context that bounds each. Parses nothing."""

import ast
import decimal
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import NamedTuple

DIGITS = 50
EXPONENT_MAX = 9_999
#: More than a person would add up by hand, fewer than CHARS_MAX holds.
ARGUMENTS_MAX = 100


class Uncountable(Exception):
    """The expression has no value here. The text says why."""


class Function(NamedTuple):
    """A function of ``least`` to ``most`` numbers."""

    call: Callable[..., Decimal]
    least: int = 1
    most: int = 1

    @property
    def wants(self) -> str:
        """How many numbers, in words."""
        if self.least == self.most:
            return "one number"
        return f"{self.least} to {self.most} numbers"


def new_context(digits: int = DIGITS) -> Context:
    """No number in it has more digits, nor an exponent beyond EXPONENT_MAX; what is too small becomes zero."""
    traps = [decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow]
    return Context(prec=digits, Emax=EXPONENT_MAX, Emin=-EXPONENT_MAX, rounding=decimal.ROUND_HALF_EVEN, traps=traps)


def _divide(context: Context, left: Decimal, right: Decimal) -> Decimal:
    return context.divide(left, _not_zero(right))


def _floor_divide(context: Context, left: Decimal, right: Decimal) -> Decimal:
    """Rounded down, as Python does it; decimals by themselves round towards zero."""
    quotient, rest = context.divmod(left, _not_zero(right))
    return context.subtract(quotient, Decimal(1)) if rest and (rest < 0) != (right < 0) else quotient


def _modulo(context: Context, left: Decimal, right: Decimal) -> Decimal:
    """With the sign of the divisor, as Python does it."""
    rest = context.remainder(left, _not_zero(right))
    return context.add(rest, right) if rest and (rest < 0) != (right < 0) else rest


def _power(context: Context, base: Decimal, exponent: Decimal) -> Decimal:
    if exponent < 0:
        _not_zero(base)
    return context.power(base, exponent) if exponent else Decimal(1)


def _not_zero(divisor: Decimal) -> Decimal:
    """Of zero by zero decimals say something else."""
    if not divisor:
        raise decimal.DivisionByZero
    return divisor


def _round(_context: Context, number: Decimal, places: Decimal = Decimal(0)) -> Decimal:
    """Halves away from zero, as schools teach it. Nobody has to be told that this was rounded."""
    if places != places.to_integral_value() or abs(places) > DIGITS:
        raise Uncountable(f"round takes whole places from -{DIGITS} to {DIGITS} (got {places})")
    exponent = -int(places)
    if number.as_tuple().exponent >= exponent:  # type: ignore[operator]  # an int: there are no NaN and infinities here
        return number
    return number.quantize(Decimal((0, (1,), exponent)), rounding=decimal.ROUND_HALF_UP, context=new_context())


def _to_whole(rounding: str) -> Callable[[Context, Decimal], Decimal]:
    return lambda context, number: context.plus(number.to_integral_value(rounding=rounding))


def _extreme(choose: Callable[..., Decimal]) -> Function:
    return Function(lambda _context, *numbers: choose(numbers), 1, ARGUMENTS_MAX)


def _sum(context: Context, *numbers: Decimal) -> Decimal:
    total = Decimal(0)
    for number in numbers:
        total = context.add(total, number)
    return total


OPERATORS: Mapping[type[ast.operator], Callable[[Context, Decimal, Decimal], Decimal]] = {
    ast.Add: Context.add,
    ast.Sub: Context.subtract,
    ast.Mult: Context.multiply,
    ast.Div: _divide,
    ast.FloorDiv: _floor_divide,
    ast.Mod: _modulo,
    ast.Pow: _power,
}
SIGNS: Mapping[type[ast.unaryop], Callable[[Context, Decimal], Decimal]] = {
    ast.UAdd: Context.plus,
    ast.USub: Context.minus,
}
FUNCTIONS: Mapping[str, Function] = {
    "abs": Function(Context.abs),
    "sqrt": Function(Context.sqrt),
    "round": Function(_round, 1, 2),
    "floor": Function(_to_whole(decimal.ROUND_FLOOR)),
    "ceil": Function(_to_whole(decimal.ROUND_CEILING)),
    "min": _extreme(min),
    "max": _extreme(max),
    "sum": Function(_sum, 1, ARGUMENTS_MAX),
    "exp": Function(Context.exp),
    "ln": Function(Context.ln),
    "log10": Function(Context.log10),
}
CONSTANTS: Mapping[str, str] = {
    "pi": "3.1415926535897932384626433832795028841971693993751",
    "e": "2.7182818284590452353602874713526624977572470937000",
}
