"""What the views of several verbs share."""
