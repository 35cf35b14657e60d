"""The engines' drill: real engines killed, paused, flooded and left, and what they themselves say of it."""
