"""Owns `make drill-cluster`: all of it behind nginx, each part killed in turn. The laws are tests.drill's."""
