"""Owns the form of an engine's row in the admin: the same rules as for the command, each said at its field."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from streaming.engine.row_rules import KEY_OPTION, RowError, check_row, without_key_of_another_host
from streaming.models import Engine


class EngineForm(forms.ModelForm):  # type: ignore[type-arg]
    """A change of host drops the key's name, unless another is given with it: nobody's key goes elsewhere unasked."""

    class Meta:
        model = Engine
        fields = ["name", "kind", "url", "model", "tokenizer", "context_tokens", "slots", "enabled", "options"]

    #: Whether the name of the key was taken out of the options.
    dropped_key = False

    def clean(self) -> dict[str, Any]:
        super().clean()
        fields = self.cleaned_data
        if fields.keys() >= {"kind", "url", "tokenizer", "options"}:
            fields["options"] = self._options(fields)
            try:
                check_row(fields["kind"], fields["url"], fields["tokenizer"], fields["options"])
            except RowError as error:
                self.add_error(error.field, ValidationError(error.message))
        return fields

    def _options(self, fields: dict[str, Any]) -> Any:
        options = {} if fields["options"] is None else fields["options"]
        if not self.instance.pk or not isinstance(options, dict):
            return options
        before = Engine.objects.get(pk=self.instance.pk)
        if options.get(KEY_OPTION) != before.options.get(KEY_OPTION):
            return options
        kept = without_key_of_another_host(options, before.url, fields["url"])
        self.dropped_key = kept != options
        return kept

    def save(self, commit: bool = True) -> Any:
        """What was found out of another server is forgotten."""
        if {"url", "kind"} & set(self.changed_data):
            self.instance.capabilities, self.instance.probed_at = {}, None
        return super().save(commit)
