//! Names, keys, tokens, limits and the job's states: pure, with time as input.
