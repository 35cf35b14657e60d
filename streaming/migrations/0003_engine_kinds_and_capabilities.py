from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('streaming', '0002_reader_presence'),
    ]

    operations = [
        migrations.AlterField(
            model_name='engine',
            name='kind',
            field=models.CharField(choices=[('anthropic', 'Anthropic'), ('llamacpp', 'Llamacpp'), ('openai', 'Openai'), ('scripted', 'Scripted'), ('vllm', 'Vllm')], max_length=20),
        ),
        migrations.AddField(
            model_name='engine',
            name='capabilities',
            field=models.JSONField(blank=True, default=dict, help_text='what probe_engine found'),
        ),
        migrations.AddField(
            model_name='engine',
            name='probed_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
