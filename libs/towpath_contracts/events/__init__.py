"""Events, the immutable entries of the run log; `log` has their union and the envelope."""
