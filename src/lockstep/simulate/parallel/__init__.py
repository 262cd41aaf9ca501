"""Ways to share one training step among devices, a folder each: data, tensor, context, expert, pipeline.

Each folder owns its traffic (operation, group, bytes, when), what of it a pass waits for, its program and its source.
They know nothing of one another, of models or of layouts: they take plain numbers and arrays. Here are the parts that
they share: pieces of a pass, lanes, and seconds of collectives.
"""
