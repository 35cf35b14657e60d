"""How long the admin's pages take on a database of a million responses: `python -m bench.admin`."""
