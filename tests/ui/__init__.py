"""The page: its server without a browser, and its screens in one."""
