"""An app beside ours that adds the tool ``wait`` to a real site; for tests only."""
