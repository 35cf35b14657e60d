import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('streaming', '0003_engine_kinds_and_capabilities'),
    ]

    operations = [
        migrations.CreateModel(
            name='ResponseInput',
            fields=[
                ('response', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='input', serialize=False, to='streaming.response')),
                ('previous', models.CharField(blank=True, max_length=40)),
                ('items', models.JSONField()),
                ('turns', models.JSONField()),
                ('asked', models.JSONField()),
            ],
        ),
    ]
