"""Owns how pages of the server spell times and days in each language. Reads none."""
