"""The tests of C1 to C12, a file an id."""
