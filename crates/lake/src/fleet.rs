//! What `cutrace lake report` asks an engine.

/// How often each function and kernel of each run took about so long.
pub const TIMES: &str = include_str!("../sql/fleet/times.sql");
/// The same of each host's kernels, as a part of what they usually take.
pub const HOSTS: &str = include_str!("../sql/fleet/hosts.sql");
/// Each GPU: how long it worked, and what it was sampled at.
pub const GPUS: &str = include_str!("../sql/fleet/gpus.sql");
