"""Why there is no decision: what models, their providers, scripts and agents in user code fail with."""

from towpath_contracts.outcomes.outcome_kind import OutcomeKind

_MODEL, _SCRIPT, _AGENT = "error of a model", "error of a script", "error of an agent"

MODEL_OUTCOMES = (
    OutcomeKind(
        "model_unauthorized", _MODEL, "The provider refuses the key, or there is none.",
        "Set its key (such as OPENAI_API_KEY) for the deciders, and start them again; an account without credit "
        "is refused alike.",
    ),
    OutcomeKind(
        "model_not_found", _MODEL, "The provider has no such model, or not for this key.",
        "Look at the name: towpath explain model_unknown.",
    ),
    OutcomeKind(
        "model_rate_limited", _MODEL, "The provider takes no more requests for now.",
        "Wait, or have the provider raise the limit; TOWPATH_PROVIDER_LIMITS keeps runs below it.",
    ),
    OutcomeKind(
        "model_unavailable", _MODEL, "The provider did not answer, or said that it can't.",
        "Look whether the deciders reach its address, through proxy and firewall; then: towpath runs retry RUN.",
    ),
    OutcomeKind(
        "model_timeout", _MODEL, "The model did not answer in time.",
        "Begin the run anew (towpath runs retry RUN), or take a faster model.",
    ),
    OutcomeKind(
        "model_refused", _MODEL, "The model, or a filter of its provider, refused to answer.",
        "Read what it says, and word the prompt otherwise.",
    ),
    OutcomeKind(
        "model_refused_request", _MODEL, "The provider says that the request itself is at fault.",
        "Read what it says: an option, or a schema that it does not take.",
    ),
    OutcomeKind(
        "context_too_long", _MODEL, "The conversation is longer than the model takes.",
        "Take a model with a longer context, or have tools return less.",
    ),
    OutcomeKind(
        "invalid_output", _MODEL, "What was answered is no decision, and asking again did not mend it.",
        "Read the answer: towpath runs history RUN; take a model that follows schemas.",
    ),
    OutcomeKind(
        "attachment_unavailable", _MODEL, "A file of the task could not be read.",
        "Attach it again, and begin the run anew.",
    ),
    OutcomeKind(
        "call_unasked", _MODEL, "The request found no place at the provider in time; nothing was paid.",
        "Nothing: it is asked anew; TOWPATH_PROVIDER_LIMITS sets how many at once.",
    ),
    OutcomeKind(
        "call_lost", _MODEL, "The process that asked the model died; the model may have been paid.",
        "Nothing: it is asked anew.",
    ),
    OutcomeKind(
        "script_missing", _SCRIPT, "A scripted model has no script of that name.",
        "Give the task a script (--script FILE), or put one beside the networks (or where "
        "TOWPATH_SCRIPT_DIR of the deciders says).",
    ),
    OutcomeKind(
        "script_exhausted", _SCRIPT, "The script has nothing left for the agent that decides.",
        "Add to the script what the agent does next.",
    ),
    OutcomeKind(
        "script_invalid", _SCRIPT, "The script can't be read.",
        "Correct the line that the message names.",
    ),
    OutcomeKind(
        "script_unavailable", _SCRIPT, "The script could not be fetched.",
        "See that the deciders reach it, and begin the run anew.",
    ),
    OutcomeKind(
        "agent_failed", _AGENT, "The agent's code raised an exception.",
        "Read it where the agent runs; then mend the code.",
    ),
    OutcomeKind(
        "deliverable_failed", _AGENT, "The agent's code failed as it made the answer.",
        "Read it where the agent runs; then mend the code.",
    ),
    OutcomeKind(
        "factory_only", _AGENT, "The class only makes agents, and does not answer itself.",
        "Start the agents that it makes.",
    ),
)  # fmt: skip
