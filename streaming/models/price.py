"""Owns the table of what tokens cost. Knows no response."""

from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.utils import timezone


def _price(help_text: str) -> dict[str, object]:
    return {
        "max_digits": 14,
        "decimal_places": 6,
        "validators": [MinValueValidator(0)],
        "help_text": f"{help_text}, per million tokens",
    }


class ModelPrice(models.Model):
    """The price of a model's tokens, for the responses that begin from a moment on until a later price."""

    model = models.CharField(max_length=200, help_text="the model's public name")
    valid_from = models.DateTimeField(default=timezone.now)
    currency = models.CharField(max_length=3, validators=[RegexValidator(r"^[A-Z]{3}\Z", "as EUR, three letters")])
    input_price = models.DecimalField(**_price("prompt"))  # type: ignore[arg-type]
    cached_price = models.DecimalField(**_price("prompt that the engine had in its cache"))  # type: ignore[arg-type]
    output_price = models.DecimalField(**_price("answer"))  # type: ignore[arg-type]

    class Meta:
        constraints = [models.UniqueConstraint(fields=["model", "valid_from"], name="one_price_at_a_time")]

    def __str__(self) -> str:
        return f"{self.model} from {self.valid_from:%Y-%m-%d %H:%M}"
