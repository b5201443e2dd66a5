//! Plain HTTP on the one port, with clients that others wrote.

mod bodies;
mod page;
mod requests;
mod routes;
mod studio;
mod tools;
