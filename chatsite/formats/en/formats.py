"""Owns how times are spelled in English pages: sortable, to the second, of 24 hours. Times are UTC."""

DATETIME_FORMAT = "Y-m-d H:i:s"
