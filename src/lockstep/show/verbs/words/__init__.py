"""What verbs are asked with: keywords that several take, and how their values are read."""
