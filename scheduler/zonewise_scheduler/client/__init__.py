"""What the commands for people do: read objects into values, and show them as tables or sentences.

Reading and showing are pure; session.py alone reaches an API server. Nothing of Linux is imported: the commands work
where people work.
"""
