"""The values of secure parameters, and documents without them.

A template may write a secret wherever it likes: into a tag, an output, or a message of the evaluator. Nothing
that is made of a template is therefore stored before the secrets in it are blanked. Only the names of
resources that exist stay as they are.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator

from fairwarning.arm.documents import (
    CaseInsensitiveFields,
    Document,
    get_fields,
    get_path,
    without_secrets,
)
from fairwarning.arm.templates.budget import Budget
from fairwarning.core.document.render import Json
from fairwarning.formats.hidden_characters import escape_hidden

#: Shorter strings are in too many words to be blanked.
SHORTEST = 4

#: Characters, times secrets: looking for more would keep the event loop busy.
MOST_COMPARED = 20_000_000

_BLANK = "***"
_SECRET = 50  # steps; every error is searched for every secret
_CHARACTERS_PER_SEARCH = 64  # what beginning a search costs, in characters that are read


def is_secret(kind: Json) -> bool:
    """Whether parameters and outputs of a type are secrets."""
    return str(kind).lower() in ("securestring", "secureobject")


def given_secrets(template: Json, parameters: Json, budget: Budget) -> frozenset[str]:
    """Return the secrets among the parameters that a template is deployed with."""
    with budget.running():
        given = _given(template, parameters, budget)
        return secrets_of((value for _, kind, value in given if is_secret(kind)), budget)


def shown_parameters(template: Json, parameters: Json, secrets: Collection[str], budget: Budget) -> Json:
    """Return the parameters of a deployment, without the values of secrets.

    Raises:
        OverBudgetError: there are too many parameters, or too many secrets to look for.
    """
    shown: Document = {}
    with budget.running():
        for name, kind, value in _given(template, parameters, budget):
            parameter: Document = {"type": kind[:1].upper() + kind[1:]}
            if not is_secret(kind):
                parameter["value"] = without_secrets(value)
            shown[name] = parameter
    return blanked(shown, secrets, budget)


def _given(template: Json, parameters: Json, budget: Budget) -> Iterator[tuple[str, str, Json]]:
    """Yield name, type and given value of each parameter that a template declares."""
    given = CaseInsensitiveFields(parameters if isinstance(parameters, dict) else {})
    for name, declaration in get_fields(template, "parameters").items():
        budget.charge_steps()
        yield name, str(get_path(declaration, "type")), get_path(given.get(name), "value")


def secrets_of(values: Iterable[Json], budget: Budget) -> frozenset[str]:
    """Return the strings to blank because of secret values."""
    secrets = frozenset(secret for value in values for secret in _secrets_in(value))
    budget.charge_steps(_SECRET * len(secrets))
    return secrets


def _secrets_in(value: Json) -> Iterator[str]:
    """Yield the strings of a secret value, and how they are written inside other strings."""
    match value:
        case str() if len(value) >= SHORTEST:
            for text in (value, escape_hidden(value)):
                yield from (text, json.dumps(text)[1:-1], repr(text)[1:-1])
        case list() | dict():
            for item in value.values() if isinstance(value, dict) else value:
                yield from _secrets_in(item)
        case _:
            pass


def blanked(document: Json, secrets: Collection[str], budget: Budget) -> Json:
    """Return a document with the secrets in its strings blanked; the ids of resources stay.

    Raises:
        OverBudgetError: there are too many secrets to look for.
    """
    if not secrets:
        return document
    with budget.running():
        # A secret may contain another one.
        return _blanked(document, sorted(secrets, key=len, reverse=True), budget)


def _blanked(document: Json, secrets: Collection[str], budget: Budget) -> Json:
    match document:
        case str() if not document.startswith("/subscriptions/"):
            budget.charge_read(len(secrets) * (_CHARACTERS_PER_SEARCH + len(document)))
            for secret in secrets:
                document = document.replace(secret, _BLANK)
            return document
        case list():
            return [_blanked(item, secrets, budget) for item in document]
        case dict():
            return {name: _blanked(value, secrets, budget) for name, value in document.items()}
        case _:
            return document


def redacted(document: Json, secrets: Collection[str]) -> Json:
    """Return a document about a failure with the secrets blanked in all of its strings, also in ids."""
    match document:
        case str():
            return redacted_text(document, secrets)
        case list():
            return [redacted(item, secrets) for item in document]
        case dict():
            return {name: redacted(value, secrets) for name, value in document.items()}
        case _:
            return document


def redacted_text(text: str, secrets: Collection[str]) -> str:
    """Return a text about a failure with the secrets blanked, whatever their case.

    A text that takes too long to search is blank.
    """
    if len(secrets) * len(text) > MOST_COMPARED:
        return _BLANK
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) <= len(text) and secret.lower() in text.lower():
            text = re.sub(re.escape(secret), _BLANK, text, flags=re.IGNORECASE)
    return text
