"""Ranks find the part of torch that its own methods import when they begin in the server that ranks are forked from."""

from lockstep.run.launch import server

server.PRELOADED += ("torch._dynamo",)
