"""An expression is arithmetic or refused in words, and what it costs is bounded whatever it says. Costs about 3 s."""

import ast
import json
import resource
import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.setup.places import ROOT
from streaming.tools import arithmetic, decimals
from streaming.tools.arithmetic import CHARS_MAX, DIGITS_SHOWN, evaluate
from streaming.tools.decimals import Uncountable


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("0.1 + 0.2", "0.3"),
        ("1234567890123456789 * 10", "12345678901234567890"),
        ("2 ^ 10", "1024"),
        ("-7 // 2", "-4"),
        ("-7 % 2", "1"),
        ("7 % -2", "-1"),
        ("7.5 // 2", "3"),
        ("1_000 * 0x10", "16000"),
        ("1.5e3 × 2 ÷ 3 − 1", "999"),
        ("-(-2) ** 2", "-4"),
        ("2 ** -2", "0.25"),
        ("0 ** 0", "1"),
        ("round(2.675, 2)", "2.68"),
        ("round(-2.5)", "-3"),
        ("round(1234.5, -2)", "1200"),
        ("max(1, 2.5, -3) + min(4, 5) + sum(1, 2) + abs(-1)", "10.5"),
        ("floor(-1.5) + ceil(1.2)", "0"),
        ("sqrt(2.25)", "1.5"),
        ("log10(1000)", "3"),
        ("10 ** 45", "1E+45"),
        ("(1\n + 2)", "3"),
        ("+".join("1" * 200), "200"),
        ("0 * -1", "0"),
        ("1_000.5", "1000.5"),
        (f"1.{'0' * 45}e5", "100000"),
        (f"{'0' * 45}12.5", "12.5"),
    ],
)
def test_arithmetic_is_exact_in_decimals(expression, text):
    assert evaluate(expression) == (text, False)


def test_what_is_not_said_exactly_is_told_as_rounded_and_shows_no_error_of_its_last_digits():
    assert evaluate("1 / 3") == ("0." + "3" * DIGITS_SHOWN, True)
    assert evaluate("1 / 3 * 3") == ("1", True)
    assert evaluate(f"1{'0' * 43}.5") == ("1E+43", True)
    assert evaluate("round(10 / 4) + 0.5") == ("3.5", False)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("1 / 0", "division by zero"),
        ("0 / 0", "division by zero"),
        ("5 // 0", "division by zero"),
        ("5 % 0.0", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("9 ** 9 ** 9", "10**9999 is too large"),
        ("1e999999999", "10**9999 is too large"),
        ("exp(1e9)", "10**9999 is too large"),
        ("sqrt(-1)", "no real result"),
        ("(-8) ** (1 / 3)", "no real result"),
        ("ln(-1)", "no real result"),
        ("10 ** 60 // 7", "too many digits"),
        ("1,000 * 2", "'1,000 * 2' is not arithmetic"),
        ("round(1, 0.5)", "whole places from -50 to 50 (got 0.5)"),
        ("round(1, 1e9)", "whole places from -50 to 50 (got 1E+9)"),
        ("min()", "min takes 1 to 100 numbers (got 0)"),
        ("sqrt(1, 2)", "sqrt takes one number (got 2)"),
        ("15% of 80", "this is no arithmetic expression"),
        ("  ", "this is no arithmetic expression"),
        ("1; 2", "this is no arithmetic expression"),
        ("1j", "'1j' is no number"),
        ("True + 1", "'True' is no number"),
        ("'a' * 9", "is no number"),
        ("...", "is no number"),
        ("-" * 300 + "1", "at most 200 levels"),
        ("(" * 250 + "1" + ")" * 100, "this is no arithmetic expression"),
        ("1" * 1_000_000, f"at most {CHARS_MAX} characters (got 1000000)"),
        ("٣ + 1", "this is no arithmetic expression"),
        ("1 +\0 1", "this is no arithmetic expression"),
        ("\ud800", "this is no arithmetic expression"),
    ],
)
def test_what_has_no_value_is_refused_in_words(expression, why):
    with pytest.raises(Uncountable) as refused:
        evaluate(expression)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    "expression",
    [
        "x", "__import__", "__import__('os')", "().__class__", "(1).real", "1 .__class__", "lambda: 1", "[1]", "{1}",
        "[x for x in (1,)]", "sum(x for x in (1,))", "(x := 1)", "f'{1}'", "f'{().__class__}'", "b'1'", "{1: 2}",
        "1 if 1 else 2", "1 < 2", "1 and 2", "not 1", "~1", "1 << 99", "1 | 2", "3 @ 4", "max(*(1, 2))",
        "max(1, key=abs)", "exec", "quit()",
        "max(**{})", "abs", "max(1)(2)", "sqrt.__call__(4)", "(yield)", "await_", "open('x')", "print(1)", "(1, 2)",
        "a[0]", "1[0]", "__debug__", "None", "pow(2, 3)", "ｐｏｗ(2, 3)",
    ],
)  # fmt: skip
def test_nothing_but_numbers_operators_and_the_functions_is_taken(expression):
    with pytest.raises(Uncountable):
        evaluate(expression)


BOMBS = [
    "9**9**9**9", "9**9**9", "-9**9**9", "1e9999*1e9999", "(" * 190 + "9" + "**9)" * 30, "10**9999**0.99999",
    "**".join(["1.0000001"] * 39), "+".join(["1.1**1.1"] * 44), "(1.1**.1)" + "**.7" * 97, "+".join(["2**1e9999"] * 40),
    "(1+1e-49)**1e49", "(1-1e-49)**1e9999", "exp(" * 60 + "1" + ")" * 60, "ln(" * 90 + "9e9999" + ")" * 90,
    "round(" * 60 + "9e9999" + ",50)" * 60, "1e9999%7", "1e9999//7", "1e9999%1e-9999", "max(" + "1," * 190 + "1)",
    "sqrt(" * 70 + "2" + ")" * 70, "9" * 400, "0." + "9" * 398, "1e" + "9" * 398, "1e-" + "9" * 397, "0x" + "f" * 398,
    "-" * 399 + "1", "not " * 99 + "1", "[" * 199 + "]" * 199, "lambda:" * 50 + "1", "f'{" * 20 + "1" + "}'" * 20,
]  # fmt: skip


def test_no_expression_takes_more_than_seconds_and_megabytes_of_the_kernels_own_counting():
    """All of them together, in a process that the kernel ends at 5 s of processor time, or refuses more memory."""
    # Without the package's other tools, which need Django.
    folder = str(ROOT / "streaming" / "tools")
    script = (
        "import json, sys, types\n"
        "package = sys.modules['streaming.tools'] = types.ModuleType('streaming.tools')\n"
        f"package.__path__ = [{folder!r}]\n"
        "from streaming.tools.arithmetic import evaluate\n"
        "from streaming.tools.decimals import Uncountable\n"
        "for text in json.load(sys.stdin):\n"
        "    try: evaluate(text)\n"
        "    except Uncountable: pass\n"
        "print('all')"
    )

    def bounded():
        resource.setrlimit(resource.RLIMIT_CPU, (5, 5))
        resource.setrlimit(resource.RLIMIT_DATA, (256 * 2**20, 256 * 2**20))

    done = subprocess.run(
        [sys.executable, "-c", script], input=json.dumps(BOMBS * 5), capture_output=True, text=True, cwd=ROOT,
        preexec_fn=bounded, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "all"), done.stderr[-500:]


@pytest.mark.parametrize("bomb", BOMBS)
def test_every_value_on_the_way_is_small_and_there_are_no_more_of_them_than_characters(bomb, monkeypatch):
    made = []
    of = arithmetic._Evaluation.of

    def counting(self, node, depth):
        made.append(value := of(self, node, depth))
        return value

    monkeypatch.setattr(arithmetic._Evaluation, "of", counting)
    try:
        shown = evaluate(bomb).text
    except Uncountable:
        shown = ""
    assert len(shown) <= decimals.DIGITS
    assert len(made) <= CHARS_MAX
    for value in made:
        assert len(value.as_tuple().digits) <= decimals.DIGITS
        assert abs(value.adjusted()) <= decimals.EXPONENT_MAX + decimals.DIGITS


@given(st.text("0123456789.eE+-*/%()^, minaxroudsqt", max_size=60))
def test_any_text_of_arithmetics_letters_has_a_value_or_is_refused(text):
    try:
        value = evaluate(text)
    except Uncountable:
        return
    assert Decimal(value.text).is_finite()
    ast.parse(value.text, mode="eval")


async def test_the_model_reads_the_result_or_why_there_is_none(called):
    assert (await called("calculate", {"expression": "0.1 + 0.2"})).payload() == {
        "call_id": "c1", "output": '{"result": "0.3"}', "error": None,
    }  # fmt: skip
    assert json.loads((await called("calculate", {"expression": "2 / 3"})).output)["rounded"] is True
    failed = await called("calculate", {"expression": "1 / 0"})
    assert (failed.output, failed.error) == ("expression: division by zero", "failed")
