"""Sphinx's configuration; ``build.py`` calls it, on pages that it has put together."""

project = "elicitation"
author = "The elicitation authors"
project_copyright = author
extensions = ["myst_parser"]
root_doc = "docs/README"
# Anchors as GitHub makes them, down to the headings that pages link to.
myst_heading_anchors = 4
html_theme = "furo"
html_title = "elicitation"
html_copy_source = False
html_show_sourcelink = False
