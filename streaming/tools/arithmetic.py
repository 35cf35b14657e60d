"""Owns calculating an expression that nobody has to trust: parsed as Python, evaluated by an allow-list. Pure.

What an expression can cost is bounded by what it is made of: at most CHARS_MAX characters, so fewer operations; each
on decimals of bounded digits and exponents, in which ``9**9**9`` is an overflow and not a number.
"""

import ast
import decimal
from decimal import Decimal
from typing import NamedTuple

from .decimals import CONSTANTS, EXPONENT_MAX, FUNCTIONS, OPERATORS, SIGNS, Uncountable, new_context

CHARS_MAX = 400
#: A sum of so many numbers is a tree of that depth.
DEPTH_MAX = 200
#: Calculated with more: these hide what the last digits suffer from rounding.
DIGITS_SHOWN = 34
#: From so many digits before or after the point on, a result is shown with an exponent.
PLAIN_DIGITS = 40
#: Of what is refused.
CHARS_SHOWN = 40
#: How people write what Python spells otherwise.
_SPELLINGS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "^": "**"})
_PARSE_FAULTS = (SyntaxError, ValueError, MemoryError, RecursionError)
_NOTHING_ELSE = "write numbers, operators, parentheses and the functions only"


class Value(NamedTuple):
    """A result; ``rounded``: to say it exactly would take more digits."""

    text: str
    rounded: bool


def evaluate(expression: str) -> Value:
    """The value of an arithmetic expression. Raises Uncountable."""
    if len(expression) > CHARS_MAX:
        raise Uncountable(f"at most {CHARS_MAX} characters (got {len(expression)})")
    source = expression.translate(_SPELLINGS).strip()
    try:
        tree = ast.parse(source, mode="eval")
    except _PARSE_FAULTS:
        raise Uncountable(f"this is no arithmetic expression; {_NOTHING_ELSE}") from None
    evaluation = _Evaluation(source)
    try:
        return _value(evaluation.of(tree.body, DEPTH_MAX), evaluation.context)
    except decimal.DivisionByZero:
        raise Uncountable("division by zero") from None
    except decimal.Overflow:
        raise Uncountable(f"a number beyond 10**{EXPONENT_MAX} is too large") from None
    except decimal.InvalidOperation:
        raise Uncountable("an operation that has no real result, or one of too many digits") from None


def _value(number: Decimal, context: decimal.Context) -> Value:
    shown = new_context(DIGITS_SHOWN)
    number = shown.normalize(number)
    is_plain = -PLAIN_DIGITS <= number.adjusted() < PLAIN_DIGITS
    text = "0" if number.is_zero() else f"{number:{'f' if is_plain else ''}}"
    return Value(text, bool(context.flags[decimal.Inexact] or shown.flags[decimal.Inexact]))


class _Evaluation:
    """One walk over a tree. ``context`` holds the limits, and whether anything was rounded."""

    def __init__(self, source: str) -> None:
        self.context = new_context()
        self._source = source

    def of(self, node: ast.expr, depth: int) -> Decimal:
        """The value of a node, which may have ``depth`` levels below it."""
        if depth == 0:
            raise Uncountable(f"at most {DEPTH_MAX} levels of operations and parentheses")
        match node:
            case ast.Constant():
                return self._number(node)
            case ast.Name(id=name) if name in CONSTANTS:
                return self.context.create_decimal(CONSTANTS[name])
            case ast.UnaryOp(op=op, operand=operand) if type(op) in SIGNS:
                return SIGNS[type(op)](self.context, self.of(operand, depth - 1))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return OPERATORS[type(op)](self.context, self.of(left, depth - 1), self.of(right, depth - 1))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
                return self._called(name, args, depth)
        raise Uncountable(f"{self._shown(node)!r} is not arithmetic; {_NOTHING_ELSE}")

    def _called(self, name: str, args: list[ast.expr], depth: int) -> Decimal:
        function = FUNCTIONS[name]
        if not function.least <= len(args) <= function.most:
            raise Uncountable(f"{name} takes {function.wants} (got {len(args)})")
        return function.call(self.context, *[self.of(arg, depth - 1) for arg in args])

    def _number(self, node: ast.Constant) -> Decimal:
        """From its own digits: a float would have lost some."""
        if type(node.value) is int:
            return self.context.create_decimal(node.value)
        if type(node.value) is float:
            return self.context.create_decimal(self._text(node).replace("_", ""))
        raise Uncountable(f"{self._shown(node)!r} is no number")

    def _shown(self, node: ast.expr) -> str:
        return self._text(node)[:CHARS_SHOWN]

    def _text(self, node: ast.expr) -> str:
        return ast.get_source_segment(self._source, node) or ""
