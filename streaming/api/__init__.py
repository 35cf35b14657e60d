"""HTTP in and out: validation, credentials, JSON shapes. What a response does is decided in the layers below."""
