#!/bin/sh
# Makes the secrets of a deployment, each in a file of its own: sh deploy/secrets.sh FOLDER
# What is there already stays. The folder is closed to all but its owner, and the files in it are open to whichever user
# a container runs as, since Compose mounts them as they are.
set -eu
folder=${1:?name a folder for the secrets}
umask 077
mkdir -p "$folder"
chmod 700 "$folder"
for name in reader.password writer.password migrator.password redaction.key grafana.password; do
  [ -e "$folder/$name" ] || openssl rand -hex 24 > "$folder/$name"
  chmod 444 "$folder/$name"
done
