"""The decider: turns a DecisionRequest into a Decision through a model provider.

It renders the prompt, asks the model, reads and checks the answer, counts tokens and money. It knows no permissions,
keeps no state, and never decides whether a proposal is carried out.
"""
