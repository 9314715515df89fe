#!/usr/bin/env bash
# Runs once, when Postgres makes its data folder: the services' roles, each with a password of its own.
# What each may do is in the migrations. No role can take all of Postgres's 100 connections: each replica keeps 4 (tas: 6).
set -euo pipefail
limit=20
for role in orchestrator tas gateway log_writer; do
  variable="TOWPATH_PASSWORD_${role^^}"
  psql --set=ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
    --set=role="towpath_$role" --set=password="${!variable}" \
    --set=limit="$limit" <<<"CREATE ROLE :\"role\" LOGIN PASSWORD :'password' CONNECTION LIMIT :limit"
done
