"""Pages for people: the chat's shell, logging in and out, the life sign. Answers no API call."""
