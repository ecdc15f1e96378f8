"""The subcommands of `zonewise`. A module here exports a COMMAND; other packages add theirs through entry points.

The entry-point group is "zonewise.commands": the name is the subcommand, and the object has the attributes of Command.
"""
