#!/bin/sh
# Owns the secrets of compose.yaml: makes what is missing in ./secrets, for one host name. Run again, it changes nothing.
#   sh deploy/compose/make-secrets.sh chat.example.org
# The certificate is signed by itself and good for a month: put a real one in place of tls_certificate and tls_key.
set -eu
host=${1:?"usage: make-secrets.sh HOST"}
cd "$(dirname "$0")/../.."
# Other users of this machine are kept out by the folder. The files can be read by whoever gets them mounted: a
# container's user is none of this machine's.
mkdir -p "${SECRETS:=secrets}"
chmod 700 "$SECRETS"
umask 022

random() {
    openssl rand -hex 32
}

make() {
    [ -e "$SECRETS/$1" ] && return 0
    cat >"$SECRETS/$1.new"
    mv "$SECRETS/$1.new" "$SECRETS/$1"
    echo "made $SECRETS/$1"
}

random | make secret_key
random | make database_password
random | make valkey_password
random | make valkey_encryption_keys
random | make metrics_token
hash=$(tr -d '\n' <"$SECRETS/valkey_password" | openssl dgst -sha256 -r | cut -d ' ' -f 1)
# Channels and Celery run scripts and subscribe; nobody needs what is dangerous, but for Celery's look at INFO.
make valkey_users <<END
user default off
user chatsite on #$hash ~* &* +@all -@dangerous +info
END
if [ ! -e "$SECRETS/tls_certificate" ]; then
    openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj "/CN=$host" -addext "subjectAltName=DNS:$host" \
        -keyout "$SECRETS/tls_key" -out "$SECRETS/tls_certificate.new" 2>/dev/null
    chmod 644 "$SECRETS/tls_key"
    mv "$SECRETS/tls_certificate.new" "$SECRETS/tls_certificate"
    echo "made $SECRETS/tls_certificate and tls_key for $host, signed by itself"
fi
