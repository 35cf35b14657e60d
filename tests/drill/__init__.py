"""The drill: real sites under seeded deaths, cuts, stalls and stops, judged afterwards by the laws of the design."""
