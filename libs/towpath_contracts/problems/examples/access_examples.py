"""Causes and examples of problems of the policy, of people's decisions, of keys, and of the audit."""

from towpath_contracts.problems.kind import ProblemExample

ACCESS_EXAMPLES = {
    "policy_invalid": ProblemExample(
        "A key of a rule is unknown, an effect is none, or a condition can't be read; nothing of the file is in force. "
        "Each place is named by its line: look at it, and at the rule around it.",
        "line 7: = sets nothing here; did you mean ==? → `when: args.amount == 5`; try it: `towpath policy apply "
        "policy.yaml --dry-run`",
    ),
    "policy_moved": ProblemExample(
        "You change the policy that you looked at, and somebody has changed it since.",
        "version 7 is in force, not 6 → `towpath policy versions`, then `towpath policy apply` again",
    ),
    "rule_not_found": ProblemExample(
        "The rule is misspelt, or was taken out of the policy.",
        "there is no rule named refunds-over-10 → `towpath policy show` lists the names",
    ),
    "grant_not_proposed": ProblemExample(
        "What a grant was to be made from does not lend itself: the model answered with none, or past calls can't be "
        "written as conditions.",
        "script:a, which support begins with, is no model that can be asked → `towpath grants propose support 'Refund"
        " 8812' --model gemini:gemini-2.5-flash`",
    ),
    "grant_too_large": ProblemExample(
        "The grant of a task has so many or so long conditions that checking its calls would take too long.",
        "the grant has 900 different conditions of 90000 characters → put what holds for every task into a rule: "
        "`towpath policy apply policy.yaml`",
    ),
    "actor_reserved": ProblemExample(
        "The audit names people and programs by their caller's name, and this one would read as the platform itself.",
        "create-key is an actor of the platform, so no key is made for it → `towpath keys create --caller anna`",
    ),
    "key_not_found": ProblemExample(
        "The prefix is another project's, or is none: a key is revoked by the part before its first underscore behind"
        " tp_, as the list shows it.",
        "7f3a is no key of this project → `towpath keys list`",
    ),
    "caller_taken": ProblemExample(
        "A caller acts in one project, and this name has a key in another one already.",
        "shop is a caller of another project → `towpath keys create --caller shop-test`",
    ),
    "role_missing": ProblemExample(
        "The key is good and has the scope, and whoever holds it lacks the role that decides here.",
        "anna does not have the role approver → `towpath keys create --caller anna --role approver`, by whoever "
        "administers keys",
    ),
    "gate_not_found": ProblemExample(
        "The id is another project's or is cut in the middle, or its run was erased.",
        "7c1e2f90-… is no gate of this project → `towpath gates list --status all`",
    ),
    "gate_settled": ProblemExample(
        "Somebody else was faster, or the gate has expired or closed with its run.",
        "gate 7c1e2f90-… is approved → `towpath gates show 7c1e` says who decided, and why",
    ),
    "reason_required": ProblemExample(
        "A denial was sent without a word, and the model would not know what to do instead.",
        "a denial needs a reason; the model sees it → `towpath gates deny 7c1e --reason 'refund half of it'`",
    ),
    "digest_changed": ProblemExample(
        "Somebody edited the arguments between your look at the gate and your decision.",
        "the approval is for 77ab…, not for 9f2c… → `towpath gates show 7c1e`, then approve what you see",
    ),
    "verdict_invalid": ProblemExample(
        "Gates differ: a call is approved or denied, an unknown effect has happened or not, a pause is resumed.",
        "say one of: approved, denied, stop → `towpath gates resolve 7c1e stop`",
    ),
    "requester_may_not_approve": ProblemExample(
        "Two people are wanted, and whoever submitted the run, or edited the call, is the first.",
        "anna submitted the run that asks → let bert decide: `towpath gates delegate 7c1e bert`",
    ),
    "delegate_may_not_decide": ProblemExample(
        "The gate was to go to somebody who lacks the role, has decided there already, or asked for the call.",
        "no key of bert has the role approver → `towpath gates delegate 7c1e role:approver`",
    ),
    "delegate_unknown": ProblemExample(
        "Nobody of this name ever had a key of the project or signed in; it may be misspelt.",
        "nobody here is known as brt → `towpath gates delegate 7c1e bert`; for who is new: --unknown",
    ),
    "edit_refused": ProblemExample(
        "Other arguments of a call are checked like a new call, and the tool, the policy or the task refuses these.",
        "these are the arguments that the call has already → `towpath gates approve 7c1e`, or `towpath gates resolve "
        "7c1e edit --args @args.json`",
    ),
    "retry_refused": ProblemExample(
        "Nobody knows what became of the call, and by the rules in force it may not simply run again.",
        "by the rules in force people have to approve it, and nobody has → look it up in the other system, then "
        "`towpath gates resolve 7c1e happened --reason 'the shop has it'`",
    ),
    "revisions_used_up": ProblemExample(
        "The arguments were edited as often as one call may be, so that an approval is about something in the end.",
        "the call was changed 5 times → `towpath gates approve 7c1e`, or `towpath gates deny 7c1e --reason …`",
    ),
    "second_person_required": ProblemExample(
        "What is erased never comes back, so another person confirms it, or the same one after the delay.",
        "anna asked for it; another person may confirm now, they from 2026-11-28 09:00 on → `towpath erasures confirm"
        " 3f9a`, by a colleague",
    ),
    "erasure_not_found": ProblemExample(
        "The id is misspelt, or the erasure was asked for in another project.",
        "3f9a2b10-… is no erasure of this project → `towpath erasures list`",
    ),
    "erasure_settled": ProblemExample(
        "Somebody confirmed or withdrew it, or the time to confirm it has passed.",
        "it was withdrawn; anna decided at 2026-11-20 09:00 → `towpath erasures show 3f9a`",
    ),
    "erasure_changed": ProblemExample(
        "Since somebody asked for it, another run has come below the run that is to be erased.",
        "1 runs were to be erased, and 2 would be: not the same are 7c1e2f90-… → `towpath erasures withdraw 3f9a`, "
        "then `towpath runs erase 7c1e --reason …`",
    ),
    "audit_broken": ProblemExample(
        "What Postgres holds of the audit is not what was signed: somebody wrote there, or a backup was put back.",
        "checkpoint 12 was signed for another tree than the stored one → `towpath audit export --file "
        "evidence.jsonl`, then `towpath audit verify evidence.jsonl --checkpoint kept.txt` names the entry",
    ),
    "audit_unreadable": ProblemExample(
        "A row of the audit has a value that no service writes, such as a time in the year 10000.",
        "a table has a value that nobody writes: year 10000 is out of range → find the row with psql, keep a copy, "
        "put it right",
    ),
    "audit_clock_differs": ProblemExample(
        "The clock of the tool-access service, or that of Postgres, was set wrongly or jumped.",
        "it is 2026-11-27T09:00:00+00:00 here and 2026-11-27T10:00:00+00:00 in Postgres: set the clock that is wrong "
        "→ timedatectl set-ntp true, there",
    ),
    "cursor_refused": ProblemExample(
        "An export goes on with a cursor of another project, another time, or another piece.",
        "the cursor was not given for this project, this time and this piece → `towpath audit export --file "
        "audit.jsonl`, which sends them right",
    ),
    "export_moved": ProblemExample(
        "While pieces of an export were read, somebody confirmed an erasure, or retention dropped what was old.",
        "payloads were erased, or retention dropped a segment → `towpath audit export --file audit.jsonl` once more",
    ),
}
"""By code."""
