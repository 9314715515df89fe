"""The pure parts of the decider: prompts, reading answers, scripts, and the order of attempts.

DecisionRequest -> prompt.render -> conversation.converse
|  Ask: one call of a provider -> Reply or CallFailure
|      Reply, answers.read_answer passes  -> Answered
|      Reply, it does not pass            -> ask once for a repair, then GaveUp
|      CallFailure that may pass          -> Wait, ask again, at most 3 calls
|      any other CallFailure              -> GaveUp
v
DecisionMade or DecisionFailed
"""
