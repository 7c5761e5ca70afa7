"""Whole settings modules of projects that are set up otherwise than most.

Each is run by ``tests/awkward/test_projects.py`` in a process of its own, on a database of its
own: settings such as these are read when a process starts.
"""
