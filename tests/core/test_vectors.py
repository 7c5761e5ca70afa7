"""What the reference's own code said about random schemas and answers, and what is expected of
the schemas that real servers send."""

import json
from typing import Any

import pytest

from elicitation.core import AnswerRefusal, ElicitationRefusal, FormAnswer, parse_requested_schema

from .data import lines

REFERENCE = lines("reference")
FINGERPRINTS = lines("fingerprints")
REAL = lines("real")


def said(vector: dict[str, Any]) -> dict[str, Any]:
    """What this package says, in the words of the vectors."""
    try:
        schema = parse_requested_schema(vector["schema"])
    except ElicitationRefusal as refusal:
        return {"refused": refusal.code} | (
            {} if refusal.property is None else {"property": refusal.property}
        )
    results: list[dict[str, Any]] = []
    for answers in vector["answers"]:
        read = {name: FormAnswer.from_dict(answer) for name, answer in answers.items()}
        try:
            results.append({"content": schema.content_from_answers(read)})
        except AnswerRefusal:
            results.append({"refused": True})
    return {"questions": schema.questions(vector["server"]), "results": results}


def expected(vector: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in vector["expected"].items()
        if key != "fingerprint" and value is not None
    }


def as_json(value: object) -> str:
    """JSON, in which 1, 1.0 and true are three different things."""
    return json.dumps(value, sort_keys=True)


def test_there_are_as_many_vectors_as_were_given() -> None:
    assert (len(REFERENCE), len(FINGERPRINTS), len(REAL)) == (1200, 500, 140)


@pytest.mark.parametrize("start", range(0, 1200, 100))
def test_the_reference_says_the_same(start: int) -> None:
    for number, vector in enumerate(REFERENCE[start : start + 100], start):
        assert as_json(said(vector)) == as_json(expected(vector)), f"line {number + 1}"


def test_the_references_vectors_cover_answers_and_refusals() -> None:
    results = [r for v in REFERENCE for r in v["expected"].get("results", ())]
    assert sum("content" in r for r in results) > 1000
    assert sum("refused" in r for r in results) > 1000


def test_fingerprints_are_equal_between_lines_where_the_references_are() -> None:
    ours: dict[str, set[str]] = {}
    for vector in REFERENCE:
        if "fingerprint" in vector["expected"]:
            fingerprint = parse_requested_schema(vector["schema"]).fingerprint()
            ours.setdefault(vector["expected"]["fingerprint"], set()).add(fingerprint)
    assert all(len(fingerprints) == 1 for fingerprints in ours.values())
    assert len(set.union(*ours.values())) == len(ours)


def test_fingerprints_of_pairs_are_equal_where_the_references_are() -> None:
    for number, pair in enumerate(FINGERPRINTS, 1):
        a, b = (parse_requested_schema(pair[side]).fingerprint() for side in "ab")
        assert (a == b) is pair["equal"], f"line {number}"


@pytest.mark.parametrize("number", range(140))
def test_schemas_of_real_servers_get_their_verdict(number: int) -> None:
    row = REAL[number]
    schema, verdict = row["requestedSchema"], row["verdict"]
    if verdict == "form":
        parsed = parse_requested_schema(schema)
        assert [p.name for p in parsed.asked] == list(schema["properties"])
        return
    with pytest.raises(ElicitationRefusal) as refused:
        parse_requested_schema(schema)
    if verdict == "confirmation":
        assert refused.value.code == "schema"
        assert parse_requested_schema(schema, allow_confirmation=True).is_confirmation
        return
    assert refused.value.code == verdict
    with pytest.raises(ElicitationRefusal):
        parse_requested_schema(schema, allow_confirmation=True)
