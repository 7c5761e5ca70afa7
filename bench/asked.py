"""What the benchmarks ask, and what they answer. Nothing here imports Django."""

MESSAGE = "Which plan would you like?"
#: What the demo's shop asks first: a plan and a number of seats.
SCHEMA = {
    "type": "object",
    "properties": {
        "plan": {"type": "string", "enum": ["solo", "team"], "title": "Plan"},
        "seats": {"type": "integer", "minimum": 1, "maximum": 50, "title": "Seats"},
    },
    "required": ["plan", "seats"],
}
CONTENT = {"plan": "team", "seats": 3}
