"""The page about conformance names what is run."""

from __future__ import annotations

import pytest

from tests.conformance.client import SCENARIOS
from tests.conformance.packages import NPM_PACKAGES
from tests.others.python_examples import EXAMPLES
from tests.processes import BASE_DIR

PAGE = (BASE_DIR / "docs" / "conformance.md").read_text()
#: Stories, and pages of the SDK's documentation; the page has its own words for the others.
PYTHON = {place.split(".")[-2] for place in EXAMPLES.values()}
PYTHON -= {"mcp_everything_server", "servers"}


@pytest.mark.parametrize(
    "name",
    [
        *SCENARIOS,
        *[package.rpartition("@")[0] for package in NPM_PACKAGES],
        *sorted(PYTHON),
    ],
)
def test_the_page_about_conformance_names(name: str) -> None:
    assert f"`{name}`" in PAGE
