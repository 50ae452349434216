"""The A-series: what an adapter must prove, played through its framework's real agent loop."""
