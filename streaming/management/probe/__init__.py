"""Seeing a site from outside, hop by hop, as its clients do: what `manage.py probe` does. Reads no database."""
