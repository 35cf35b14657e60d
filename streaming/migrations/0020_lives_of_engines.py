from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('streaming', '0019_identity'),
    ]

    operations = [
        migrations.RenameField('enginereading', 'started_s', 'life'),
        migrations.AlterField(
            'enginereading', 'life',
            models.BigIntegerField(help_text='another number whenever it was started, where it gives one', null=True),
        ),
    ]
