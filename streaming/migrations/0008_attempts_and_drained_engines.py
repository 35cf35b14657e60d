from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('streaming', '0007_daily_usage'),
    ]

    operations = [
        migrations.AddField(
            model_name='engine',
            name='drain_started_at',
            field=models.DateTimeField(blank=True, help_text='since when it takes nothing new and what runs there moves away', null=True),
        ),
        # A number becomes a list: there is no cast for that, and what the attempts were is not known any more.
        migrations.RemoveField(
            model_name='response',
            name='attempts',
        ),
        migrations.AddField(
            model_name='response',
            name='attempts',
            field=models.JSONField(blank=True, default=list, help_text='what each engine that was asked made of it'),
        ),
    ]
