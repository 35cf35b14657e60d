"""`python -m bench`: what a stream costs us, beside a bare relay in the same run. Nothing of the site imports this."""
