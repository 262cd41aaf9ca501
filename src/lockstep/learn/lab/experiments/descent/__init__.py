"""Problems with a known optimum, and plain descent on them."""
