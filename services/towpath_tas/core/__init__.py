"""Pure rules of tool access: any input in any state returns; no clock, no randomness, no I/O.

    tool request ──► authorization ──► calls/ledger ──► what to store and what to send (`LedgerChange`)
                     │ tools/registry, tools/arguments   is the tool accepted, are the arguments valid
                     │ policy/grants                     did the task get this right
                     │ policy/matrix, policy/conditions  deny > require_approval > allow; no rule: deny
                     │ provenance                        where the values of the arguments come from
                     └ denials, denial_alternatives      why not, and what else the agent can do

    require_approval ──► approvals/approvals, approvals/approval_votes    what people approve, who may vote
    stop switch ───────► calls/switch_holds     a permitted call waits instead of going out
    worker claims ─────► calls/claims           who may start it
    worker reports ────► calls/outcomes         what counts as its end
    fence, person ─────► calls/settlement       ends from outside

`calls/ledger` opens with the states of a call. An answer that is not a clear yes is a no, everywhere.
"""
