"""The claims of a textbook chapter, and what decides them."""
