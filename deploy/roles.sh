#!/usr/bin/env bash
# Runs once, when Postgres makes its data folder: the services' roles, each with a password of its own.
# What each may do is in the migrations. No role can take all of Postgres's 100 connections: each replica keeps 4 (tas: 6).
# With TOWPATH_OWNER it also makes the database and its owner, who is no superuser: a Postgres that is not the container's.
# psql takes passwords from its environment: every user of the machine sees a command line.
set -euo pipefail
limit=20
run() { psql --set=ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" "$@"; }
owner=${TOWPATH_OWNER:-}
if [ -n "$owner" ]; then
  run --set=owner="$owner" <<'SQL'
\getenv password POSTGRES_PASSWORD
CREATE ROLE :"owner" LOGIN CREATEROLE PASSWORD :'password';
SQL
  run --set=owner="$owner" <<<"CREATE DATABASE towpath OWNER :\"owner\""
fi
for role in orchestrator tas gateway log_writer; do
  variable="TOWPATH_PASSWORD_${role^^}"
  run --set=role="towpath_$role" --set=limit="$limit" <<SQL
\getenv password $variable
CREATE ROLE :"role" LOGIN PASSWORD :'password' CONNECTION LIMIT :limit;
SQL
  if [ -n "$owner" ]; then
    run --set=role="towpath_$role" --set=owner="$owner" <<<"GRANT :\"role\" TO :\"owner\" WITH ADMIN TRUE, INHERIT FALSE, SET FALSE"
  fi
done
