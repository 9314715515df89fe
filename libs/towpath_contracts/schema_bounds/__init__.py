"""Bounds of schemas: `size` says which ones are refused when they are offered, `work` ends checks that take long."""
