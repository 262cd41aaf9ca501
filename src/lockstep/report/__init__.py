"""What a person looks at: tables for a terminal (one file per verb), plots."""
