//! End-to-end behaviours over real sockets, and house rules.
