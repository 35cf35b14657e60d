"""Owns what the provider says of a person beside the toolkit's own claims; the toolkit itself says only ``sub``."""

from oauth2_provider.oauth2_validators import OAuth2Validator


class Validator(OAuth2Validator):
    """A name in the ID token; an address at the userinfo endpoint alone, of which nobody says that it was confirmed."""

    def get_additional_claims(self, request):
        return {"preferred_username": request.user.username}

    def get_userinfo_claims(self, request):
        return {**super().get_userinfo_claims(request), "email": request.user.email}
