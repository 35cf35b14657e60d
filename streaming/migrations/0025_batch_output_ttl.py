from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('streaming', '0024_unproven_since'),
    ]

    operations = [
        migrations.AddField(
            model_name='batch',
            name='output_ttl_s',
            field=models.PositiveIntegerField(blank=True, help_text='s after which what it writes goes, where the site keeps files no shorter', null=True),
        ),
    ]
