"""Owns the table of engines: where a model is served and how much it can take."""

from django.core.validators import MinValueValidator
from django.db import models


class Engine(models.Model):
    """One engine endpoint. Secrets stand in the environment; the row names the variable."""

    class Kind(models.TextChoices):
        ANTHROPIC = "anthropic", "Anthropic"
        LLAMACPP = "llamacpp", "llama.cpp"
        OPENAI = "openai", "OpenAI"
        SCRIPTED = "scripted", "scripted"
        VLLM = "vllm", "vLLM"

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=20, choices=Kind.choices)
    url = models.CharField("URL", max_length=500, blank=True)
    model = models.CharField(max_length=200, db_index=True, help_text="the model's public name")
    tokenizer = models.CharField(max_length=1000, blank=True, help_text="folder or tokenizer.json")
    context_tokens = models.PositiveIntegerField(default=2048, validators=[MinValueValidator(16)])
    slots = models.PositiveIntegerField(default=4, validators=[MinValueValidator(1)])
    enabled = models.BooleanField(default=True)
    drain_started_at = models.DateTimeField(
        null=True, blank=True, help_text="since when it takes nothing new and what runs there moves away"
    )
    options = models.JSONField(default=dict, blank=True)
    capabilities = models.JSONField(default=dict, blank=True, help_text="what probe_engine found")
    probed_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        permissions = [("operate_engine", "Can drain, return and test engines")]

    def __str__(self) -> str:
        return f"{self.name} ({self.model})"
