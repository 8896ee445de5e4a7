//! Sessions, dispatch, leases, retry and dead letters: no wire types.
