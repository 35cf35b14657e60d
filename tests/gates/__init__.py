"""Gates of scripts that a test opens from outside: what is done to a running answer never races with its end.

Files in a folder of the site, so a gate stays open for the process that carries an answer on.
"""

from .gate import Gate, stairs

__all__ = ["Gate", "stairs"]
