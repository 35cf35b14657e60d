"""Owns the bench of the page: what a browser has to do to show a long answer. The server is a stand-in."""
