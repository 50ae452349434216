"""The story that needs no key: pages over HTTP, an agent that believes them, an owner."""
