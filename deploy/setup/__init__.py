"""Owns `make run`, `test`, `check` and `bench`: what a machine with nothing but Python needs, step by step."""
