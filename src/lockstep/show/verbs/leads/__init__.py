"""Leads from a question in plain words to commands, options, claims, experiments, published runs and pages."""
