"""The claims of a textbook chapter on distributed training: what each says, whether it is so, and what decides it."""
