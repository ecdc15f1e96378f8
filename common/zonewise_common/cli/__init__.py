"""Code that all subcommands of `zonewise` share: the interface of a command, and its output."""
