"""The pure parts of the decider: prompts, reading answers, scripts, and the order of attempts.

DecisionRequest -> prompt.render -> conversation.converse
|  AskModel: one call of a provider -> ModelReply or ModelCallFailure
|      ModelReply, answers.read_answer passes  -> Answered
|      ModelReply, it does not pass            -> ask once for a repair, then GaveUp
|      ModelCallFailure that may pass          -> WaitBeforeRetry, ask again, at most 3 calls
|      any other ModelCallFailure              -> GaveUp
v
DecisionMadeFact or DecisionFailedFact
"""
