"""Pure rules of tool access: any input in any state returns; no clock, no randomness, no I/O."""
