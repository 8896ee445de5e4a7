"""A worker's inside: one thread that holds all state of the session.

Handlers run elsewhere, on the caller's loop or in a pool of threads, so that one which burns CPU delays no heartbeat.
"""
