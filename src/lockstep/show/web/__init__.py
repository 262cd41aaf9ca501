"""The page in a browser: a server on this machine that asks the verbs and shows their answers.

`serve.py` starts it, `app.py` has its addresses, `guard.py` what it refuses; `screen.py` says how a screen is made.
"""
