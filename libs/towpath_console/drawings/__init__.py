"""Drawings in SVG, made here so that pages, documents and the command line have the same."""
