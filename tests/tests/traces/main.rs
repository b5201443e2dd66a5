//! The traces of servers that work: what a collector receives of real calls, and what it is to the server when there is none.

mod absent;
mod callers;
mod collector;
mod encrypted;
mod requests;
