"""Owns the launcher behind `manage.py serve`: daphne's classes, made to wait, refuse and end. Not chat."""
