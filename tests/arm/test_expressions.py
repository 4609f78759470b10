"""The values of expressions, and the errors of invalid ones."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as some

from fairwarning.arm.errors import InvalidTemplateError
from fairwarning.arm.templates.budget import Budget
from fairwarning.arm.templates.expressions import Evaluation, TemplateFunction, Trees, find_calls
from fairwarning.arm.templates.functions import PURE
from fairwarning.core.document.render import Json

VM: Json = {"properties": {"vmId": "7", "nics": [{"id": "a"}, {"id": "b"}]}, "Zones": []}
FUNCTIONS = {**PURE, "vm": TemplateFunction(0, 0, lambda a: VM)}


def trees() -> Trees:
    return Trees(Budget(lambda: 0.0))


def evaluate(text: str) -> Json:
    return Evaluation(FUNCTIONS, trees()).text(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("web", "web", id="a string without brackets is only a string"),
        pytest.param("", "", id="an empty string is only a string"),
        pytest.param("[web", "[web", id="a bracket that never closes makes no expression"),
        pytest.param("[[web]", "[web]", id="a doubled bracket is one bracket of a string"),
        pytest.param("[[web", "[[web", id="a doubled bracket needs no escape where none closes"),
        pytest.param("['web']", "web", id="a string literal is itself"),
        pytest.param("['it''s']", "it's", id="a doubled quote is one quote"),
        pytest.param("['']", "", id="a string literal may be empty"),
        pytest.param("[ 7 ]", 7, id="an integer is itself and white space does not matter"),
        pytest.param("[-7]", -7, id="an integer may be negative"),
        pytest.param("[vm().properties.vmId]", "7", id="a property of a property is found"),
        pytest.param("[VM().PROPERTIES.vmid]", "7", id="case matters neither in functions nor in properties"),
        pytest.param("[vm().properties.nics[1].id]", "b", id="an item is found by its number"),
        pytest.param("[vm()['properties']['vmId']]", "7", id="a property is found by a quoted name"),
        pytest.param("[vm()[concat('zo', 'nes')]]", [], id="a property's name may be an expression"),
        pytest.param("[if(true(), 'yes', vm().nothing)]", "yes", id="if leaves the other branch alone"),
        pytest.param("[if(false(), vm().nothing, 'no')]", "no", id="if takes the other branch"),
    ],
)
def test_a_string_stands_for_its_value(text: str, value: Json) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        pytest.param("concat('a', 1, 'b')", "a1b", id="concat joins strings and integers"),
        pytest.param("concat(createArray(1), createArray(2))", [1, 2], id="concat joins arrays"),
        pytest.param("concat()", "", id="concat of nothing is empty"),
        pytest.param("format('{1}-{0}', 'a', 2)", "2-a", id="format fills numbered holes"),
        pytest.param("format('vm{0:D3}', 7)", "vm007", id="format writes leading zeros"),
        pytest.param("format('{{{0}}}', 1)", "{1}", id="format reads doubled braces as one"),
        pytest.param("toLower('WeB')", "web", id="toLower lowers"),
        pytest.param("toUpper('WeB')", "WEB", id="toUpper raises"),
        pytest.param("trim(' a ')", "a", id="trim trims"),
        pytest.param("padLeft(7, 3, '0')", "007", id="padLeft fills up from the left"),
        pytest.param("replace('a-b-c', '-', '')", "abc", id="replace replaces all"),
        pytest.param(
            "split('a,b;c', createArray(',', ';'))", ["a", "b", "c"], id="split takes several marks"
        ),
        pytest.param("split('a.b', '.')", ["a", "b"], id="split takes one mark"),
        pytest.param("substring('abcdef', 1, 3)", "bcd", id="substring cuts a part"),
        pytest.param("substring('abcdef', 4)", "ef", id="substring runs to the end by itself"),
        pytest.param("startsWith('Web', 'w')", True, id="startsWith ignores case"),
        pytest.param("endsWith('Web', 'W')", False, id="endsWith looks at the end"),
        pytest.param("base64('hi')", "aGk=", id="base64 encodes"),
        pytest.param("string(7)", "7", id="string writes an integer"),
        pytest.param("string(true())", "True", id="string writes a boolean with a capital"),
        pytest.param("string(createArray(1, 'a'))", '[1,"a"]', id="string writes an array as JSON"),
        pytest.param("int('-12')", -12, id="int reads a string"),
        pytest.param("int(3)", 3, id="int leaves an integer"),
        pytest.param("bool('True')", True, id="bool reads a string"),
        pytest.param("bool(0)", False, id="bool reads an integer"),
        pytest.param("json('{\"a\": [1]}').a[0]", 1, id="json reads JSON"),
        pytest.param("null()", None, id="null is null"),
        pytest.param("equals('a', 'a')", True, id="equals compares strings"),
        pytest.param("equals(1, true())", False, id="equals tells an integer from a boolean"),
        pytest.param("not(false())", True, id="not turns round"),
        pytest.param("and(true(), true(), false())", False, id="and needs all"),
        pytest.param("or(false(), true())", True, id="or needs one"),
        pytest.param("coalesce(null(), 'a', 'b')", "a", id="coalesce takes the first that is something"),
        pytest.param("greater(2, 1)", True, id="greater compares integers"),
        pytest.param("lessOrEquals('a', 'b')", True, id="lessOrEquals compares strings"),
        pytest.param("length('abc')", 3, id="length counts characters"),
        pytest.param("length(vm().properties.nics)", 2, id="length counts items"),
        pytest.param("empty(vm().zones)", True, id="an empty array is empty"),
        pytest.param("empty(null())", True, id="null is empty"),
        pytest.param("contains('abc', 'b')", True, id="contains looks into strings"),
        pytest.param("contains(vm(), 'ZONES')", True, id="contains ignores the case of properties"),
        pytest.param("contains(createArray(1, 2), 3)", False, id="contains looks into arrays"),
        pytest.param("createObject('a', 1).a", 1, id="createObject pairs names and values"),
        pytest.param(
            "union(createArray(1, 2), createArray(2, 3))", [1, 2, 3], id="union keeps each item once"
        ),
        pytest.param(
            'union(json(\'{"a": {"b": 1, "c": 1}}\'), json(\'{"a": {"c": 2}}\'))',
            {"a": {"b": 1, "c": 2}},
            id="union merges objects at every level",
        ),
        pytest.param("first('abc')", "a", id="first takes the first character"),
        pytest.param("last(createArray(1, 2))", 2, id="last takes the last item"),
        pytest.param("first(vm().zones)", None, id="first of nothing is nothing"),
        pytest.param("skip('abc', 1)", "bc", id="skip leaves out the start"),
        pytest.param("take(createArray(1, 2, 3), 2)", [1, 2], id="take keeps the start"),
        pytest.param("add(sub(mul(2, 5), 3), 1)", 8, id="sums nest"),
        pytest.param("div(-7, 2)", -3, id="div rounds towards zero"),
        pytest.param("mod(-7, 2)", -1, id="mod keeps the sign of what is divided"),
    ],
)
def test_a_function_returns(expression: str, value: Json) -> None:
    result = evaluate(f"[{expression}]")

    assert result == value
    assert type(result) is type(value)


def test_a_unique_string_has_13_characters_and_depends_on_its_arguments_alone() -> None:
    one, again, other = (evaluate(f"[uniqueString('{seed}')]") for seed in ("a", "a", "b"))

    assert one == again != other
    assert isinstance(one, str)
    assert len(one) == 13
    assert one.isalnum()


def test_a_guid_depends_on_its_arguments_alone() -> None:
    one, again, other = (evaluate(f"[guid('{seed}', 'x')]") for seed in ("a", "a", "b"))

    assert one == again != other


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            "[listKeys('x')]", "the template function 'listKeys' is not supported", id="unknown function"
        ),
        pytest.param("[web]", "'web' is neither a quoted string nor a function call", id="a bare word"),
        pytest.param("[]", "expected a value, not the end", id="nothing between the brackets"),
        pytest.param("[concat('a']", "expected ',', not the end", id="a call that never ends"),
        pytest.param("[concat('a',)]", "expected a value, not ')'", id="a comma too many"),
        pytest.param("[concat('a' 'b')]", "expected ',', not \"'b'\"", id="a comma too few"),
        pytest.param("['a' 'b']", "expected the end, not \"'b'\"", id="two values side by side"),
        pytest.param("['a]", 'unexpected "\'"', id="a string that never ends"),
        pytest.param("[vm()?.x]", "unexpected '?'", id="a character that means nothing"),
        pytest.param("[vm().7]", "expected a property name after '.', not '7'", id="a number after a dot"),
        pytest.param(
            "[vm().size]", "there is no property 'size' among properties, Zones", id="unknown property"
        ),
        pytest.param("[vm().zones[0]]", "there is no item 0 in an array of 0", id="an item too far"),
        pytest.param(
            "[vm().properties.nics[-1]]", "there is no item -1 in an array of 2", id="a negative item"
        ),
        pytest.param("[vm().zones.a]", "an array has no member 'a'", id="a property of an array"),
        pytest.param("[toLower(5)]", "toLower: argument 1 must be a string, not an integer", id="wrong type"),
        pytest.param("[toLower()]", "toLower: takes at least 1 arguments, not 0", id="too few arguments"),
        pytest.param(
            "[if(1, 2, 3)]", "if: argument 1 must be a boolean, not an integer", id="if without a claim"
        ),
        pytest.param("[if(true(), 2)]", "if: takes at least 3 arguments, not 2", id="if without an else"),
        pytest.param("[concat('a', vm())]", "concat: cannot mix strings", id="concat of an object"),
        pytest.param(
            "[format('{1}', 'a')]", "format: there is no value for {1}", id="a hole without a value"
        ),
        pytest.param("[format('{0:X}', 1)]", "format: the style 'X' is not supported", id="an unknown style"),
        pytest.param("[format('{', 1)]", "format: the text has an unmatched brace", id="half a hole"),
        pytest.param("[int('1_0')]", "the text is not a 64-bit integer", id="int of something else"),
        pytest.param("[int('９')]", "the text is not a 64-bit integer", id="int of foreign digits"),
        pytest.param("[99999999999999999999]", "is not a 64-bit integer", id="an integer too large"),
        pytest.param("[mul(4611686018427387904, 2)]", "is not a 64-bit integer", id="a product too large"),
        pytest.param("[div(1, 0)]", "div: cannot divide by zero", id="a division by zero"),
        pytest.param("[json('{')]", "json: the text is not JSON", id="half a JSON text"),
        pytest.param("[json('NaN')]", "json: the text is not JSON", id="no number"),
        pytest.param("[json('" + "[" * 5000 + "')]", "is not JSON", id="a bottomless JSON text"),
        pytest.param("[substring('abc', 2, 5)]", "lie outside a string of 3 characters", id="a part too far"),
        pytest.param("[split('a', '')]", "split: a separator is empty or missing", id="split at nothing"),
        pytest.param(
            "[replace('a', '', 'b')]", "replace: the text to replace is empty", id="replace nothing"
        ),
        pytest.param("[createObject('a')]", "createObject: every name needs a value", id="half a pair"),
        pytest.param(
            "[padLeft('a', 3, 'xy')]", "padLeft: takes a length and one character", id="a wide filling"
        ),
    ],
)
def test_a_bad_expression_is_refused_by_its_name(text: str, problem: str) -> None:
    with pytest.raises(InvalidTemplateError) as refused:
        evaluate(text)

    assert problem in str(refused.value)
    assert refused.value.status_hint == 400


def test_an_expression_that_was_refused_is_refused_again() -> None:
    evaluation = Evaluation(FUNCTIONS, trees())

    for _ in range(2):
        with pytest.raises(InvalidTemplateError, match="expected the end"):
            evaluation.text("['a' 'b']")


LONG = "padLeft('', 131072, 'x')"


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("concat(" * 5000 + ")" * 5000, id="calls in calls without end"),
        pytest.param("vm()" + "[" * 5000 + "]" * 5000, id="brackets in brackets without end"),
        pytest.param("vm()" + ".a" * 5000, id="properties of properties without end"),
        pytest.param(f"concat({LONG}, 'x')", id="a string that grows too long"),
        pytest.param(f"replace({LONG}, 'x', {LONG})", id="a replacement that grows too long"),
        pytest.param("format('" + "{0}" * 2000 + f"', {LONG})", id="a format that grows too long"),
        pytest.param("padLeft('a', 1000000000, 'x')", id="a filling that grows too long"),
        pytest.param(f"createArray({', '.join([LONG] * 40)})", id="an array that grows too large"),
        pytest.param("json('" + "[" * 100 + "]" * 100 + "')", id="a value that nests too deeply"),
    ],
)
def test_an_expression_cannot_grow_out_of_hand(expression: str) -> None:
    with pytest.raises(InvalidTemplateError):
        evaluate(f"[{expression}]")


VALUES = [
    "'a'",
    "''",
    "'{0:D2}'",
    "0",
    "-1",
    "9223372036854775807",
    "true()",
    "null()",
    "vm()",
    "vm().zones",
    "json('1.5')",
    "json('[1, {}]')",
]
WORDS = [
    "'a'",
    "''",
    "7",
    "-1",
    "(",
    ")",
    ",",
    ".",
    "[",
    "]",
    " ",
    "'",
    "?",
    "vm()",
    "json('[1]')",
    *FUNCTIONS,
]


@given(some.lists(some.sampled_from(WORDS), max_size=12).map("".join))
def test_whatever_is_written_has_a_value_or_is_refused(expression: str) -> None:
    with suppress(InvalidTemplateError):
        evaluate(f"[{expression}]")


@given(some.sampled_from(sorted(FUNCTIONS)), some.lists(some.sampled_from(VALUES), max_size=4))
def test_whatever_a_function_is_given_it_has_a_value_or_refuses(function: str, values: list[str]) -> None:
    with suppress(InvalidTemplateError):
        evaluate(f"[{function}({', '.join(values)})]")


def test_the_calls_of_a_document_are_found_wherever_they_stand() -> None:
    document: Json = {"a": ["[f(g(1).x)]", "[[h()]"], "[k()]": {"b": "[vm()[i()]]", "c": 3}}

    assert sorted(call.name for call in find_calls(document, trees())) == ["f", "g", "i", "k", "vm"]
