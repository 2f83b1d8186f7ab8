//! What a call is about. Which function has which category is known to the `cuda` crate.

use crate::named::named_enum;

named_enum! {
    /// What a call is about.
    Category, "category",
    Init = "init",
    Context = "context",
    Module = "module",
    Memory = "memory",
    Transfer = "transfer",
    Kernel = "kernel",
    Sync = "sync",
    Stream = "stream",
    Event = "event",
    Graph = "graph",
    Query = "query",
    Other = "other",
}
