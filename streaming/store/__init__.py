"""Rows in and out. Every function here is synchronous and runs on a thread; deciding is done above, in pure code."""
