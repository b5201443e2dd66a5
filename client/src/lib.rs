//! Client library and command line for Omni.
