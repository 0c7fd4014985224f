"""The command line: parse and call."""
