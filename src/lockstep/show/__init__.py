"""How a question is asked and an answer shown: verbs, views, the page and the command line."""
