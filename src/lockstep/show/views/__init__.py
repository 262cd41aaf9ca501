"""What a person looks at: the flags, the table and the picture of every verb, in a file of its name."""
