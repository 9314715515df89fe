"""Reducers: how one event changes one part of the state. No decision is made here."""
