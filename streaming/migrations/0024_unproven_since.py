from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('streaming', '0023_batches'),
    ]

    operations = [
        migrations.AddField(
            model_name='response',
            name='unproven_since',
            field=models.DateTimeField(blank=True, help_text='since when an engine that was left has not shown that it stopped', null=True),
        ),
        migrations.AddIndex(
            model_name='response',
            index=models.Index(condition=models.Q(('unproven_since__isnull', False)), fields=['unproven_since', 'id'], name='response_unproven'),
        ),
    ]
