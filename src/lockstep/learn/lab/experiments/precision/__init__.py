"""Number formats: range, loss scaling, master weights."""
