"""What the reference's own code said about random schemas and answers, and what is expected of
the schemas that real servers send."""

import json
from typing import Any

import pytest

from elicitation.core import AnswerRefusal, ElicitationRefusal, FormAnswer, parse_requested_schema

from .data import lines

# An integer whose bounds no integer of 64 bits is within (`minimum: 1.5e300`, or 0.5 to 0.5): the
# reference asks it, and no answer fits. Here it is refused (spec 4.9, case D1).
NO_ANSWER_FITS = {
    5: "colour", 29: "Zip", 223: "n1", 348: "quantity", 380: "plan", 394: "notify", 674: "city",
    710: "colour", 820: "plan", 1128: "seats", 1139: "env", 1166: "n2",
}  # fmt: skip
# `{"type": "object"}`, which is a confirmation here (case D5).
WITHOUT_PROPERTIES = 84

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
        wanted = expected(vector)
        if number + 1 in NO_ANSWER_FITS:
            assert not any("content" in result for result in wanted.get("results", ()))
            wanted = {"refused": "out_of_profile", "property": NO_ANSWER_FITS[number + 1]}
        assert as_json(said(vector)) == as_json(wanted), f"line {number + 1}"


def test_the_references_vectors_cover_answers_and_refusals() -> None:
    results = [r for v in REFERENCE for r in v["expected"].get("results", ())]
    assert sum("content" in r for r in results) > 1000
    assert sum("refused" in r for r in results) > 1000


def test_fingerprints_are_equal_between_lines_where_the_references_are() -> None:
    ours: dict[str, set[str]] = {}
    for number, vector in enumerate(REFERENCE, 1):
        if "fingerprint" in vector["expected"] and number not in NO_ANSWER_FITS:
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
    if number == WITHOUT_PROPERTIES:
        assert (schema, verdict) == ({"type": "object"}, "schema")
        verdict = "confirmation"
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
