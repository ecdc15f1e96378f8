"""The commands for users: they read objects into values, and show them as tables or sentences.

Reading and showing are pure; only session.py connects to an API server. No module here depends on Linux, so the
commands also work on users' own machines.
"""
